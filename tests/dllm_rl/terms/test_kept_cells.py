"""What a check keeps: the estimate of its gradient by enumeration, its credit by hand; and imitation's labels."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from dllm_rl import Decoding, decode, rollout
from dllm_rl.policy import PolicyConfig, scores_of
from dllm_rl.task import UnmaskBatch
from dllm_rl.terms.cross_entropy import own_answers
from dllm_rl.terms.kept_cells import KeptCells, KeptConfig, kept_weights
from dllm_rl.terms.states import ScoredStates, VisitedStates
from tests.dllm_rl.helpers.tiny_training import puzzles, sudoku_task, warm_model

MASK = 3
RIGHT = torch.tensor([[0, 1, 2, 0], [0, 2, 1, 0], [1, 0, 2, 2], [2, 2, 2, 2], [0, 0, 1, 1]])
POLICY = PolicyConfig(position_temperature=0.7, token_temperature=1.3)


class OneOf(UnmaskBatch):
    """A response of four tokens is right if it is one of `RIGHT`."""

    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        return torch.zeros_like(responses, dtype=torch.bool)

    def completable(self, responses: Tensor, of: Tensor) -> Tensor:
        return ((responses[:, None] == RIGHT) | (responses[:, None] == MASK)).all(2).any(1)


def kept_by_hand(state: Tensor, order: list[int], tokens: tuple[int, ...]) -> list[float]:
    written, kept = state.tolist(), []
    for place, token in zip(order, tokens, strict=True):
        tried = [*written[:place], token, *written[place + 1 :]]
        holds = any(all(a in (MASK, b) for a, b in zip(tried, right, strict=True)) for right in RIGHT.tolist())
        written = tried if holds else written
        kept.append(float(holds))
    return kept


@pytest.mark.parametrize(("offered", "state"), [(3, [MASK, MASK, 2, MASK]), (2, [MASK] * 4), (4, [0, MASK, MASK, 0])])
def test_the_estimate_is_unbiased(offered, state) -> None:
    """All pairs of draws of all offered tokens, by their probability, give Q and its gradient in a fixed order."""
    start = torch.tensor([state])
    masked = start == MASK
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(int(masked.sum()), MASK, dtype=torch.float64, generator=generator).requires_grad_()
    order = scores_of(logits.detach(), masked, POLICY).margins[0].argsort(descending=True)[: min(offered, len(logits))]
    tokens = (logits / POLICY.token_temperature).log_softmax(1)[(masked.cumsum(1) - 1)[0, order]]  # (k, V), in order
    every = list(itertools.product(range(MASK), repeat=len(order)))
    kept = torch.tensor([kept_by_hand(start[0], order.tolist(), one) for one in every], dtype=torch.float64)  # (E, k)
    at = torch.arange(len(order))
    probability = torch.stack([tokens[at, list(one)].sum() for one in every]).exp()
    expected = (probability * kept.mean(1)).sum()
    (gradient,) = torch.autograd.grad(expected, logits, retain_graph=True)
    assert 0 < float(expected.detach()) < 1 and bool(gradient.any())

    # The term at as many copies of the state as there are pairs, the uniforms of each in the middle of its tokens.
    middle = tokens.detach().exp().cumsum(1) - tokens.detach().exp() / 2
    uniform = torch.stack([middle[at, list(one)] for one in every])  # (E, k)
    first, second = torch.cartesian_prod(torch.arange(len(every)), torch.arange(len(every))).T
    pairs, copies = torch.stack([uniform[first], uniform[second]], 1), len(first)
    pairs = torch.nn.functional.pad(pairs, (0, offered - len(order)))
    responses, of = start.repeat(copies, 1), torch.zeros(copies, dtype=torch.long)
    false = torch.zeros_like(start, dtype=torch.bool)
    problems = OneOf(
        prompt_ids=start, prompt_mask=None, responses=start, answers=start, judged=~false, scored=false, mask_id=MASK
    )
    scores = scores_of(logits.repeat(copies, 1), responses == MASK, POLICY)
    states = ScoredStates(problems, responses, of, responses == -1, scores, POLICY)
    number, chance = torch.arange(copies), (probability[first] * probability[second]).detach()
    visited = VisitedStates(states, number, number, (number, of), chance, chance, chance, chance, of.bool())
    noise = SimpleNamespace(of_states=lambda problem_of, use, shape: pairs)
    record = SimpleNamespace(problem_of=of, positions=torch.zeros(copies, 1, offered))
    found = KeptCells(KeptConfig(kept_weight=3.0, judged_draws=2), noise).over(record)(visited)
    assert float(found.value.detach()) == pytest.approx(3 * float(expected.detach()), abs=1e-9)
    torch.testing.assert_close(torch.autograd.grad(found.value, logits)[0], 3 * gradient, rtol=0, atol=1e-9)
    part, whole = found.shares["kept"]
    assert (part, whole) == (2 * len(every) * int(kept.sum()), 2 * copies * len(order))


def test_credit_by_hand() -> None:
    """Of two offered of three: G is (1, 1/2) and (1/2, 1/2); a state whose draws keep the same teaches nothing."""
    kept = torch.tensor([[[True, True, False], [False, True, False]], [[True, False, True]] * 2])
    positions = torch.tensor([[4, 0, -1], [1, 2, 3]])
    expected = torch.zeros(2, 2, 3, dtype=torch.float64)
    expected[0, :, 0] = torch.tensor([1 / 4, -1 / 4])
    torch.testing.assert_close(kept_weights(kept, positions), expected)


@pytest.mark.parametrize("offered", [3, 18])
def test_an_own_answer_is_the_guarded_decode_of_its_state(offered) -> None:
    """Of each state that a guarded roll-out visits, which for each is a decode of its own; and it is a grid."""
    how = Decoding("margin", tokens_per_step=offered, guard="completable")
    model, problems = warm_model().double(), sudoku_task().batch(puzzles(4, answers="any"))
    record = rollout(model, problems, replace(how, on_error="end"))
    own = own_answers(record)
    assert len(own) > len(problems) and not (own == problems.mask_id).any()
    again = replace(problems.select(record.problem_of), responses=record.responses)
    assert torch.equal(decode(model, again, how).responses, own)
    assert bool(problems.completable(own, record.problem_of).all())
