"""What follows from the formulas, by hand."""

import math
from itertools import permutations

import pytest
import torch
from torch import Tensor

from scripts.referee.objectives.cj_grpo import CjGrpo
from scripts.referee.objectives.copies import Completions, Copies, Objective, trajectory_copies
from scripts.referee.objectives.coupled_grpo import CoupledGrpo
from scripts.referee.objectives.diffu_grpo import DiffuGrpo
from scripts.referee.objectives.espo import Espo, spread_sizes
from scripts.referee.objectives.just_grpo import JustGrpo
from scripts.referee.objectives.lightning_reward import lightning_rewards
from scripts.referee.objectives.spg import Spg
from scripts.referee.objectives.trace_rl import TraceRl
from scripts.referee.objectives.upo import Upo
from scripts.referee.objectives.wd1 import Wd1
from scripts.referee.tiny import TinyModel, logprobs_of

MASK = 3
OBJECTIVES: list[Objective] = [DiffuGrpo(), CoupledGrpo(), Wd1(), Spg(), Espo(), TraceRl(), CjGrpo(), JustGrpo()]


def completions(tokens: list[list[int]], steps: list[list[int]]) -> Completions:
    """One token of prompt, then the completion."""
    written = torch.tensor(steps)
    completed = torch.ones(len(steps), written.shape[1] + 1, dtype=torch.bool)
    completed[:, 0] = False
    ids = torch.nn.functional.pad(torch.tensor(tokens), (1, 0))
    return Completions(ids, completed, completed, torch.nn.functional.pad(written, (1, 0), value=-1))


TWO = completions([[0, 1, 2], [2, 2, 1]], [[1, 0, 2], [0, 2, 1]])


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gradient(objective: Objective, of: Completions, advantages: Tensor) -> Tensor:
    """That of the loss in the log-probabilities of the copies, `(B, M, L)`."""
    copies = objective.copies(of, random())
    logprobs = logprobs_of(TinyModel(4, MASK + 1, MASK), of, copies, MASK).detach().requires_grad_()
    return torch.autograd.grad(objective.loss(logprobs, copies, advantages), logprobs)[0]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: type(objective).__name__)
def test_equal_rewards_say_nothing_and_what_does_not_count_has_no_gradient(objective) -> None:
    equal = objective.advantages(torch.ones(1, 2))
    assert torch.equal(gradient(objective, TWO, equal), torch.zeros_like(gradient(objective, TWO, equal)))

    part = Completions(TWO.tokens, TWO.completed, TWO.completed & (torch.arange(4) < 3), TWO.steps)
    moved = gradient(objective, part, torch.tensor([[0.5, -0.5]]))
    assert moved[:, :, [0, 3]].abs().sum() == 0 and moved[0, :, 1:3].sum() < 0 < moved[1, :, 1:3].sum()


@pytest.mark.parametrize(
    "change",
    [
        {"counted": torch.ones(2, 4, dtype=torch.bool)},
        {"counted": torch.zeros(2, 4, dtype=torch.bool)},
        {"completed": torch.ones(2, 4)},
        {"steps": torch.zeros(2, 3, dtype=torch.int64)},
    ],
    ids=["prompt counts", "nothing counts", "type", "shape"],
)
def test_completions_that_do_not_fit_are_refused(change) -> None:
    fields = {name: getattr(TWO, name) for name in ("tokens", "completed", "counted", "steps")}
    with pytest.raises(ValueError, match=r"counts; drop it|outside completed|completed is|steps is"):
        Completions(**fields | change)


def test_the_copies_of_a_trajectory_by_hand() -> None:
    copies = trajectory_copies(TWO, TWO.steps)
    assert copies.inputs(TWO, MASK)[0].tolist() == [[0, 3, 3, 3], [0, 3, 1, 3], [0, 0, 1, 3]]
    assert [row.nonzero().tolist() for row in copies.scored[0]] == [[[2]], [[1]], [[3]]]
    assert trajectory_copies(TWO, TWO.steps, shrink=2).inputs(TWO, MASK)[0].tolist() == [[0, 3, 3, 3], [0, 0, 1, 3]]


@pytest.mark.parametrize(("normalized", "total"), [(False, 1.5), (True, 1.0)])
def test_the_weights_of_coupled_copies_in_the_mean(normalized, total) -> None:
    copies = CoupledGrpo(normalized=normalized, rates=(0.3, 0.3)).copies(TWO, random())
    whole, one, other = copies.weights[0, :, 1].tolist()
    assert whole + 0.3 * one + 0.7 * other == pytest.approx(total)
    assert torch.equal(copies.masked[:, 1] ^ copies.masked[:, 2], copies.masked[:, 0])


def test_wd1_by_hand() -> None:
    """A = ±½, so that w⁺ − w⁻ is ±tanh ½."""
    objective, weight = Wd1(), math.tanh(0.5)
    advantages = objective.advantages(torch.tensor([[1.0, 0.0]]))
    expected = torch.tensor([[[0.0, -weight, -weight, -weight]], [[0.0, weight, weight, weight]]])
    torch.testing.assert_close(gradient(objective, TWO, advantages).float(), expected)


def test_spg_by_hand() -> None:
    """Two tokens; both are masked in the first copy, the second alone in the other."""
    scored = torch.tensor([[[True, True], [False, True]]])
    weights = torch.tensor([[[0.25, 0.25], [0.5, 0.5]]])
    copies = Copies(scored, scored, weights, torch.tensor([[True, True]]))
    logprobs = torch.tensor([[[0.5, 0.2], [0.9, 0.6]]]).log()
    lower = (math.log(0.5) + math.log(0.2)) / 4 + math.log(0.6) / 2
    upper = (math.log(0.5**2 / 2) + math.log((0.2**2 + 2 * 0.6**2) / 2)) / 4
    assert float(Spg(power=2.0).upper(logprobs, copies)) == pytest.approx(upper)
    for bound, share in (("lower", 0.0), ("mixed", 0.5), ("upper", 1.0)):
        loss = Spg(power=2.0, bound=bound).loss(logprobs, copies, torch.tensor([[-1.0]]))
        assert float(loss) == pytest.approx(share * upper + (1 - share) * lower)
    assert float(Spg(bound="none").loss(logprobs, copies, torch.tensor([[-1.0]]))) == 0
    assert float(Spg().loss(logprobs, copies, torch.tensor([[1.0]]))) == pytest.approx(-lower)


def test_with_one_copy_the_upper_bound_of_spg_has_the_gradient_of_the_lower_one() -> None:
    advantages = torch.tensor([[-0.5, -0.5]])
    lower, upper = (gradient(Spg(bound=bound, num_copies=1), TWO, advantages) for bound in ("lower", "upper"))
    torch.testing.assert_close(lower, upper)
    upper_two, lower_two = (gradient(Spg(bound=bound), TWO, advantages) for bound in ("upper", "lower"))
    assert not torch.allclose(lower_two, upper_two)


def test_spg_scores_what_it_perturbed_before_the_block() -> None:
    """Two copies take the two blocks; where the second is taken, the first is perturbed, here as a whole."""
    four = completions([[0, 1, 2, 0]], [[0, 1, 2, 3]])
    copies = Spg(block_length=2, prompt_rate=1.0).copies(four, random())
    inside = Spg(block_length=2, prompt_rate=1.0, block_only=True).copies(four, random())
    assert torch.equal(inside.masked, copies.masked)
    second = inside.scored[0, :, 3:].any(1)  # the copy of the second block
    assert second.tolist().count(True) == 1
    assert copies.scored[0, second, 1:3].all() and not inside.scored[0, second, 1:3].any()
    assert copies.scored[0, ~second, 3:].all() and not inside.scored[0, ~second, 3:].any()


def test_the_weights_of_espo_add_up_to_the_tokens_in_the_mean() -> None:
    """Four rows of three tokens have every size once; a pair weighs 4 in the inner two and 2 in the outer two."""
    copies = Espo(num_draws=1).copies(completions([[0, 1, 2]] * 4, [[0, 1, 2]] * 4), random())
    weights = (copies.weights * copies.scored).sum((1, 2))
    assert sorted(weights.tolist()) == [2, 2, 4, 4]
    assert sorted(copies.masked[:, 0].sum(1).tolist()) == [0, 1, 2, 3]


def test_the_estimate_of_espo_is_the_mean_over_orders() -> None:
    """E over copies of Σ weight · log p is the mean over all orders of the log-probability of writing in that order."""
    model = TinyModel(4, MASK + 1, MASK)
    orders = completions([[0, 1, 2]] * 6, [list(order) for order in permutations(range(3))])
    states = trajectory_copies(orders, orders.steps)
    with torch.no_grad():
        exact = states.token_estimates(logprobs_of(model, orders, states, MASK)).sum(1).mean()
        many = completions([[0, 1, 2]] * 4000, [[0, 1, 2]] * 4000)
        copies = Espo(num_draws=1).copies(many, random())
        drawn = copies.token_estimates(logprobs_of(model, many, copies, MASK)).sum(1)
    assert abs(float(drawn.mean() - exact)) < 4 * float(drawn.std()) / math.sqrt(4000) < 0.15


def test_halves_rounded_to_even_leave_sizes_out() -> None:
    """Two rows of four tokens: the second is at k + 2½, which rounds to an even number before it wraps at 5."""
    for to_even, sizes in ((False, {0, 1, 2, 3, 4}), (True, {1, 2, 4})):
        assert {int(spread_sizes(2, 4, random(seed), to_even)[1]) for seed in range(100)} == sizes


def test_methods_that_follow_the_sampler_are_one_where_a_pass_writes_one_token() -> None:
    advantages = torch.tensor([[0.7, -0.7]])
    torch.testing.assert_close(gradient(TraceRl(), TWO, advantages), gradient(CjGrpo(), TWO, advantages))
    left = Completions(TWO.tokens, TWO.completed, TWO.counted, TWO.ranks.masked_fill(~TWO.completed, -1))
    torch.testing.assert_close(gradient(TraceRl(), left, advantages), gradient(JustGrpo(), TWO, advantages))


def test_a_long_trajectory_weighs_more_in_the_mean_over_states() -> None:
    """Three passes and one, an advantage of ½ each: ½ for each row, or three of four states."""
    uneven = completions([[0, 1, 2], [2, 2, 1]], [[0, 1, 2], [0, 0, 0]])
    advantages = torch.tensor([[0.5, 0.5]])
    by_row = gradient(TraceRl(), uneven, advantages).sum((1, 2))
    over_states = gradient(TraceRl(reduction="mean"), uneven, advantages).sum((1, 2))
    assert by_row.tolist() == pytest.approx([-0.25, -0.25])
    assert over_states.tolist() == pytest.approx([-0.375, -0.125])


def test_a_fast_wrong_completion_takes_what_three_right_ones_got() -> None:
    """z of three right and one wrong is 1/√3 and −√3; of three slow and a fast one the negative."""
    right, speeds = torch.tensor([[True, True, True, False]]), torch.tensor([[1.0, 1.0, 1.0, 4.0]])
    torch.testing.assert_close(lightning_rewards(right, speeds), torch.zeros(1, 4))
    signs = lightning_rewards(right, speeds, right_scale="signs", speed_scale="range")
    assert signs.tolist() == [[1.0, 1.0, 1.0, 0.0]]


def test_upo_by_hand() -> None:
    """Two passes, of four open positions and of three; the reference takes the positions with other chances."""
    scored = torch.tensor([[[True, False], [False, True]]])
    copies = Copies(scored, scored, torch.ones(1, 2, 2), torch.tensor([[True, True]]))
    new, old, reference = (
        torch.tensor([[[one, 9.0], [9.0, other]]]).log().requires_grad_(index == 0)
        for index, (one, other) in enumerate(((0.5, 0.4), (0.4, 0.4), (0.25, 0.25)))
    )
    loss = Upo(kl_weight=0.1).loss(new, copies, torch.tensor([[1.0]]), old, reference)
    weight = 0.2 / 0.16 * (1 + math.log(0.2 / 0.0625))
    assert float(loss.detach()) == pytest.approx(-1.2 - 1 + 0.1 * weight * math.log(0.2), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss, new)
    # The first ratio, 1.25, is clipped.
    assert gradient[scored].tolist() == pytest.approx([0.1 * weight, -1 + 0.1 * weight], rel=1e-5)


def test_the_product_of_many_chances_is_0_in_float32() -> None:
    """120 passes of probability 0.4 in both: p / p_old is 1, and 2 where p_old has become 0."""
    scored = torch.eye(120, dtype=torch.bool).unsqueeze(0)
    copies = Copies(scored, scored, torch.ones(1, 120, 120), torch.ones(1, 120, dtype=torch.bool))
    logprobs = torch.full((1, 120, 120), 0.4).log()
    kept, none = (Upo(kl_weight=1.0, kept_as=kept) for kept in (None, torch.float32)), torch.zeros(1, 1)
    losses = [float(one.loss(logprobs, copies, none, logprobs, logprobs)) for one in kept]
    assert losses == pytest.approx([120 * math.log(0.4), 2 * 120 * math.log(0.4)])
