import copy
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.policy import PolicyConfig
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.terms.objective import ObjectiveConfig
from sudoku_env.prompts.tokens import PreFilled, TokenLayout
from tests.dllm_rl.helpers.policy_reference import as_rollout, gradients, trajectories, value
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.dllm_rl.helpers.update_checks import POLICY, assert_same, check_both_terms, near, run, uneven, uneven_rollout
from tests.dllm_rl.helpers.weights import moved
from tests.helpers.drawn import first_with

MILD = PolicyConfig(position_temperature=2.0, token_temperature=2.0)
UNSCALED = ObjectiveConfig(advantage_baseline="leave_one_out", advantage_scale="none")
EXACT = replace(UNSCALED, gamma=1.0, clip_low=1.0, clip_high=float("inf"))
GRID = np.array([1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1], dtype=np.uint8)
MASK = 4


def toy(blanks: tuple[int, ...], tail: int) -> PreFilled:
    """A 4×4 puzzle over the vocabulary of its four digits and the mask, with a prompt of one token."""
    board = GRID.copy()
    board[list(blanks)] = 0
    layout = TokenLayout(
        size=4, prompt_length=1, response_length=16 + tail, mask_id=MASK, cell_positions=np.arange(16),
        digit_ids=np.arange(4), puzzle=board, solution=GRID, name="toy",
    )  # fmt: skip
    response = [int(digit) - 1 if digit else MASK for digit in board] + [MASK] * tail
    return PreFilled([0, *response], [ell for ell, token in enumerate(response) if token != MASK], layout)


@pytest.fixture(scope="module")
def toy_model() -> LladaForMaskedLM:
    """Small and in float64, with margins and probabilities that differ clearly from position to position.

    On the toy both terms matter: the second alone is not the gradient.
    """

    def draw(seed: int) -> LladaForMaskedLM:
        sizes = {"d_model": 16, "n_heads": 2, "n_kv_heads": 1, "mlp_hidden_size": 16}
        model = make_model(seed=seed, vocab_size=5, mask_token_id=MASK, **sizes)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.5)
        return model.double()

    def both_matter(model: LladaForMaskedLM) -> bool:
        puzzle = toy((0, 5), 0)
        expected = gradients(value(model, puzzle.token_ids, puzzle, POLICY, EXACT.lam), model)
        played = list(trajectories(model, puzzle, POLICY))
        log_weight = torch.from_numpy(np.log(len(played)) + [sum(log_probs) for _, log_probs in played])
        record = as_rollout(model, puzzle, played, POLICY, EXACT.lam)
        record = replace(record, old_logprobs=record.old_logprobs - log_weight[:, None] * record.live)
        _, second = run(model, record, replace(EXACT, advantage_baseline="mean"), weights=(0.0, 1.0))
        difference = max(float((left - right).abs().max()) for left, right in zip(second, expected, strict=True))
        return difference > 1e-2 * max(float(right.abs().max()) for right in expected)

    return first_with(both_matter, draw, seed=0)


# The exact policy gradient.


@pytest.mark.parametrize(("blanks", "tail"), [((0, 5), 0), ((6,), 1)])
def test_gradient_is_that_of_the_enumerated_expectation(toy_model, blanks, tail) -> None:
    """Every pair of trajectories as a group of two with leave-one-out, weighted by its probability; R = 1."""
    puzzle = toy(blanks, tail)
    expected = gradients(value(toy_model, puzzle.token_ids, puzzle, POLICY, EXACT.lam), toy_model)
    played = list(trajectories(toy_model, puzzle, POLICY))
    probability = np.exp([sum(log_probs) for _, log_probs in played])
    assert probability.sum() == pytest.approx(1, abs=1e-9)
    one_each = as_rollout(toy_model, puzzle, played, POLICY, EXACT.lam)
    total = [torch.zeros_like(parameter) for parameter in toy_model.parameters()]
    of_trajectories = ("state_of", "positions", "tokens", "old_logprobs", "rewards", "wrong", "decisions")
    for i, j in combinations_with_replacement(range(len(played)), 2):
        columns = {name: getattr(one_each, name)[[i, j]] for name in of_trajectories}
        weight = float(probability[i] * probability[j]) * (1 if i == j else 2)
        _, pair = run(toy_model, replace(one_each, num_generations=2, **columns), EXACT, weights=(weight, weight))
        total = [sum_ + gradient for sum_, gradient in zip(total, pair, strict=True)]
    assert_same(total, expected)


def test_gradient_by_importance_weights_where_the_first_state_forces_nothing(toy_model) -> None:
    """All pairs in one pass, each action's ratio set to the probability of its pair.

    The four blanks form a rectangle that two digits fill in two ways: S1 is empty until one of them is filled.
    """
    puzzle = toy((0, 2, 4, 6), 0)
    expectation = value(toy_model, puzzle.token_ids, puzzle, MILD, EXACT.lam)
    expected = gradients(expectation, toy_model)
    played = list(trajectories(toy_model, puzzle, MILD))
    count = len(played)
    log_probability = torch.tensor([sum(log_probs) for _, log_probs in played], dtype=torch.float64)
    one_each = as_rollout(toy_model, puzzle, played, MILD, EXACT.lam)
    assert float(one_each.expected_reward[0]) == 0.0 and not bool(one_each.definite[0].any())
    pairs = torch.cartesian_prod(torch.arange(count), torch.arange(count)).flatten()
    log_weight = log_probability[pairs].reshape(-1, 2).sum(1).repeat_interleave(2) + 2 * np.log(count)
    of_trajectories = ("state_of", "positions", "tokens", "rewards", "wrong", "decisions")
    repeated = {name: getattr(one_each, name)[pairs] for name in of_trajectories}
    old_logprobs = one_each.old_logprobs[pairs] - log_weight[:, None] * (repeated["state_of"] >= 0)
    record = replace(one_each, num_generations=2, old_logprobs=old_logprobs, **repeated)
    result, got = run(toy_model, record, EXACT)
    assert result.terms["f"] == near(float(expectation.detach()))
    assert_same(got, expected)


# Against loops, with real puzzles, a real model and parameters that moved since the roll-out.


CONFIGS = [
    ObjectiveConfig(),
    replace(UNSCALED, reduction="mean", lam=0.2, gamma=0.8),
    ObjectiveConfig(clip_low=0.1, clip_high=0.3, policy_weight=0.3, f_weight=2.0),
]


@pytest.fixture
def record(model: LladaForMaskedLM, batch: PuzzleBatch) -> Rollout:
    """An uneven roll-out of which, once the parameters have moved, each of the settings cuts some decisions."""
    after = copy.deepcopy(model)
    moved(after, 0.02)

    def cut(record: Rollout) -> bool:
        return uneven(record) and all(run(after, record, config)[0].shares["clip_frac"][0] > 0 for config in CONFIGS)

    return uneven_rollout(model, batch, seed=11, has=cut, num_generations=4)


@pytest.mark.parametrize("config", CONFIGS)
def test_both_terms_agree_with_loops_after_the_parameters_moved(model, record, puzzles, config) -> None:
    moved(model, 0.02)
    assert 0 < check_both_terms(model, puzzles, record, config) < int(record.live.sum())


def test_the_second_term_is_weighted_by_the_ratio_of_the_decision_before(model, record) -> None:
    """The value of J_2, from the pass's own ratios and f under the moved parameters."""
    moved(model, 0.02)
    result, _ = run(model, record, ObjectiveConfig())
    ratio = torch.where(record.live, (result.logprobs - record.old_logprobs).exp(), 1.0)
    assert float((ratio - 1).abs().max()) > 0.2  # some are cut
    f, total = _f_of_states(model, record), 0.0
    for row, k in record.live.nonzero().tolist():
        incoming = float(ratio[row, k - 1]) if k else 1.0
        total += incoming * f[record.state_of[row, k]] / len(ratio)
    assert result.terms["f"] == near(total)


def _f_of_states(model: LladaForMaskedLM, record: Rollout) -> list[float]:
    """f of each distinct state: J_2 of a roll-out in which that state is all that was visited."""
    values = []
    for state in range(len(record.responses)):
        row, step = (record.state_of == state).nonzero()[0].tolist()
        only = torch.full_like(record.state_of[:1], -1)
        only[0, 0] = 0
        of_states = ("responses", "problem_of", "definite", "expected_reward")
        alone = replace(
            record, num_generations=1, state_of=only, positions=record.positions[row, step][None, None],
            tokens=record.tokens[row, step][None, None], old_logprobs=torch.zeros(only.shape, dtype=torch.float64),
            decisions=record.decisions[[row]], **{name: getattr(record, name)[[state]] for name in of_states},
        )  # fmt: skip
        values.append(run(model, alone, ObjectiveConfig())[0].terms["f"])
    return values


# Update 0, passes of any size, what counts.


@pytest.mark.parametrize("sequences", [1, 3, 1000])
def test_the_ratio_is_one_at_update_0(model, record, sequences) -> None:
    result, _ = run(model, record, ObjectiveConfig(), max_tokens=sequences * record.problems.length)
    assert float((result.logprobs - record.old_logprobs)[record.live].abs().max()) < 1e-12
    assert result.shares["clip_frac"][0] == 0
    assert bool((result.logprobs[~record.live] == 0).all())


def test_the_gradient_does_not_depend_on_the_size_of_a_pass(model, record) -> None:
    moved(model, 0.02)
    whole, expected = run(model, record, ObjectiveConfig())
    for sequences, max_masked in ((1, None), (2, None), (7, None), (30, None), (1000, 12), (7, 30)):
        budgets = {"max_tokens": sequences * record.problems.length + 5, "max_masked": max_masked}
        parts, got = run(model, record, ObjectiveConfig(), **budgets)
        assert_same(got, expected)
        assert (parts.terms["policy"], parts.terms["f"]) == near((whole.terms["policy"], whole.terms["f"]))
        assert parts.shares == whole.shares


def test_all_live_decisions_but_the_last_of_a_full_trajectory_are_in_the_first_sum(model, record) -> None:
    result, _ = run(model, record, ObjectiveConfig())
    assert len(set(record.decisions.tolist())) > 1  # as the puzzles differ in their blanks
    taken = record.live.sum(1)
    last = int((taken == record.decisions).sum())
    assert result.shares["clip_frac"][1] == int(taken.sum()) - last
    assert result.shares["masked_frac"] == (last, int(taken.sum()))


def test_the_first_term_rises_along_its_gradient(model, record) -> None:
    config = ObjectiveConfig(clip_high=10.0, clip_low=1.0)
    before, ascent = run(model, record, config, weights=(1.0, 0.0))
    step = 1e-6 / sum(float(gradient.square().sum()) for gradient in ascent)
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), ascent, strict=True):
            parameter.add_(step * gradient)
    after, _ = run(model, record, config)
    # What is left falls with the step.
    assert after.terms["policy"] - before.terms["policy"] == pytest.approx(1e-6, rel=1e-3)
