import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.policy import NEG_INF, PolicyConfig, StateScores, score_states, token_logprobs_at
from dllm_rl.reward import log_expected_reward, log_expected_reward_of
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.terms.expected_reward import f_term, incoming_ratio
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.terms.policy_gradient import rollout_advantages
from dllm_rl.training.update import step_weights
from sudoku_env.logic import definite_digits
from sudoku_env.prompts.tokens import detect_definite
from tests.dllm_rl.helpers.policy_reference import environment, f_of, policy_at

POLICY = PolicyConfig(position_temperature=0.7, token_temperature=0.8)
PLAIN = ObjectiveConfig(gamma=0.5, advantage_baseline="leave_one_out", advantage_scale="none")


def test_f_by_hand() -> None:
    position = torch.tensor([[0.5, 0.2, 0.2, 0.1]]).log()
    solution = torch.tensor([[0.9, 0.3, 0.0, 0.0]]).log()
    definite = torch.tensor([[True, False, False, False]])
    tail = torch.tensor([[False, False, True, True]])
    f = log_expected_reward(position, solution, definite, tail, torch.zeros_like(tail), lam=0.5).exp()
    torch.testing.assert_close(f, torch.tensor([0.5 * 0.9 + 0.5 * 0.3]))
    without = log_expected_reward(position, solution, definite, tail, torch.zeros_like(tail), lam=0.0).exp()
    torch.testing.assert_close(without, torch.tensor([0.45]))


@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_a_state_without_terms_has_f_0_and_no_gradient(lam) -> None:
    logits = torch.zeros(2, 3, requires_grad=True)
    position = logits.log_softmax(1)
    definite = torch.tensor([[False] * 3, [True, False, False]])
    none = torch.zeros_like(definite)
    log_f = log_expected_reward(position, torch.zeros(2, 3), definite, none, none, lam)
    assert log_f[0] == NEG_INF
    f = log_f.exp()
    torch.testing.assert_close(f, torch.tensor([0.0, 1 / 3]))
    f.sum().backward()
    assert torch.equal(logits.grad[0], torch.zeros(3))
    torch.testing.assert_close(logits.grad[1], torch.tensor([2 / 9, -1 / 9, -1 / 9]))


def test_f_survives_probabilities_that_underflow() -> None:
    """exp(-200) is 0 in fp32, so a gradient that came through probabilities would be lost."""
    logits = torch.tensor([[0.0, -200.0]], requires_grad=True)
    definite = torch.tensor([[False, True]])
    none = torch.zeros_like(definite)
    log_f = log_expected_reward(logits.log_softmax(1), torch.zeros(1, 2), definite, none, none, 0.5)
    assert float(log_f.detach()) == pytest.approx(-200.0)
    log_f.sum().backward()
    assert torch.allclose(logits.grad, torch.tensor([[-1.0, 1.0]]))


def scored(model: LladaForMaskedLM, batch: PuzzleBatch, responses: torch.Tensor) -> tuple[StateScores, torch.Tensor]:
    with torch.no_grad():
        scores = score_states(model, batch.prompt_ids, batch.prompt_mask, responses, batch.layout.mask_id, POLICY)
    definite = torch.zeros(responses.shape, dtype=torch.bool)
    cells = torch.tensor(batch.layout.cell_positions)
    definite[:, cells] = torch.from_numpy(definite_digits(batch.boards(responses)) > 0)
    log_f = log_expected_reward_of(
        scores, definite=definite, tail=(scores.row_of >= 0) & ~batch.judged[0], scored=torch.zeros_like(definite),
        answers=batch.answers, policy=POLICY, lam=0.5,
    )  # fmt: skip
    return scores, f_term(log_f, "linear")


def halfway(batch: PuzzleBatch) -> torch.Tensor:
    """The puzzles with a third of their blanks filled correctly."""
    responses = batch.responses.clone()
    cells = (responses == batch.layout.mask_id) & batch.judged[0]
    filled = cells & (cells.cumsum(1) % 3 == 0)
    return torch.where(filled, batch.answers, responses)


@pytest.mark.parametrize("later", [False, True])
def test_f_is_the_environments_reward_averaged_over_all_actions(model, batch, later) -> None:
    responses = halfway(batch) if later else batch.responses
    scores, f = scored(model, batch, responses)
    every = torch.tensor([token for token in range(scores.logits.shape[1]) if token != batch.mask_id])
    for state in range(len(batch)):
        positions, tokens = torch.cartesian_prod((responses[state] == batch.mask_id).nonzero()[:, 0], every).T
        of = torch.full_like(positions, state)
        _, rewards = environment(batch, of, responses[of], positions, tokens, 0.5)
        token_logprobs = token_logprobs_at(scores, of, positions, tokens, POLICY.token_temperature)
        probabilities = (scores.position_logprobs[state, positions] + token_logprobs).double().exp()
        assert float(probabilities.sum()) == pytest.approx(1, abs=1e-12)
        mean_reward = float((probabilities * torch.from_numpy(rewards)).sum())
        assert 0 < mean_reward < 1
        assert float(f[state]) == pytest.approx(mean_reward, abs=1e-12)


def test_f_agrees_with_the_definition(model, batch, puzzles) -> None:
    responses = halfway(batch)
    _, f = scored(model, batch, responses)
    for index, puzzle in enumerate(puzzles[: len(batch)]):
        state = [*puzzle.token_ids[: puzzle.prompt_length], *responses[index].tolist()]
        assert detect_definite(state, puzzle.layout)
        with torch.no_grad():
            expected = f_of(policy_at(model, state, puzzle, POLICY), state, puzzle, 0.5)
        assert float(f[index]) == pytest.approx(float(expected), abs=1e-12)


def test_advantages_by_hand() -> None:
    """γ = 1/2; returns after each action are (0.4, 0.4, 0) and (0.6, 0, 0)."""
    visited = torch.tensor([[0.5, 0.2, 0.4], [0.1, 0.6, 0.0]])
    for config, first in ((ObjectiveConfig(gamma=0.5), [-1.0, 1.0, 0.0]), (PLAIN, [-0.2, 0.4, 0.0])):
        expected = torch.tensor([first, [-each for each in first]])
        torch.testing.assert_close(rollout_advantages(visited, 2, config), expected)


def test_time_runs_forward() -> None:
    """A reward late in an episode is credited to the decisions before it, and to none after it."""
    visited = torch.zeros(2, 5)
    visited[0, 3] = 1.0
    expected = torch.tensor([0.25, 0.5, 1.0, 0.0, 0.0])
    torch.testing.assert_close(rollout_advantages(visited, 2, PLAIN), torch.stack([expected, -expected]))


def test_trajectories_that_ended_count_with_zeros() -> None:
    """Three of four ended in the first decision; the survivor stands √3 deviations above them."""
    visited = torch.tensor([[0.4, 0.8], [0.4, 0.0], [0.4, 0.0], [0.4, 0.0]])
    advantages = rollout_advantages(visited, 4, ObjectiveConfig())
    torch.testing.assert_close(advantages[:, 0], torch.tensor([3.0, -1.0, -1.0, -1.0]) / math.sqrt(3))
    assert torch.equal(advantages[:, 1], torch.zeros(4))


def test_groups_are_separate_and_one_without_spread_has_no_advantage() -> None:
    visited = torch.tensor([[0.5, 0.7], [0.5, 0.7], [0.5, 1.0], [0.5, 0.0]])
    advantages = rollout_advantages(visited, 2, ObjectiveConfig())
    assert torch.equal(advantages[:2], torch.zeros(2, 2))
    torch.testing.assert_close(advantages[2:, 0], torch.tensor([1.0, -1.0]))


@settings(max_examples=50)
@given(st.lists(st.lists(st.floats(0, 1, width=32), min_size=3, max_size=3), min_size=4, max_size=4), st.floats(0, 1))
def test_advantages_against_plain_loops(rows, gamma) -> None:
    advantages = rollout_advantages(torch.tensor(rows), 2, replace(PLAIN, gamma=gamma))
    for row, other in ((0, 1), (1, 0), (2, 3), (3, 2)):
        for k in range(3):
            difference = sum(gamma ** (j - k - 1) * (rows[row][j] - rows[other][j]) for j in range(k + 1, 3))
            assert float(advantages[row, k]) == pytest.approx(difference, abs=1e-5)


def test_f_with_a_scored_tail_by_hand() -> None:
    position = torch.tensor([[0.5, 0.2, 0.3]]).log()
    solution = torch.tensor([[0.9, 0.3, 0.4]]).log()
    definite, tail = torch.tensor([[True, False, False]]), torch.tensor([[False, False, True]])
    f = log_expected_reward(position, solution, definite, tail, torch.ones_like(tail), lam=0.5).exp()
    torch.testing.assert_close(f, torch.tensor([0.5 * 0.9 + 0.5 * 0.3 * 0.4]))


def test_incoming_ratio_is_shifted_and_carries_no_gradient() -> None:
    ratio = torch.tensor([[1.5, 0.5, 2.0], [0.9, 1.0, 1.1]], requires_grad=True)
    incoming = incoming_ratio(ratio)
    assert torch.equal(incoming, torch.tensor([[1.0, 1.5, 0.5], [1.0, 0.9, 1.0]])) and not incoming.requires_grad


def test_step_weights() -> None:
    live = torch.tensor([[True, True, True, True], [True, False, False, False]])
    decisions = torch.tensor([4, 2])
    assert step_weights(live, decisions, "sum").tolist() == [[0.5] * 4, [0.5, 0, 0, 0]]
    assert step_weights(live, decisions, "mean").tolist() == [[0.125] * 4, [0.25, 0, 0, 0]]
