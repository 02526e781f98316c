"""What a state that follows is worth."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.policy import score_states
from dllm_rl.rollouts import rollout
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.values import (
    CellValues,
    LookAhead,
    ScoredStates,
    returns_until_error,
    totals_by_masked,
)
from sudoku_env.prompts.tokens import PreFilled
from tests.dllm_rl.helpers.policy_reference import after, f_of, policy_at, value
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.dllm_rl.helpers.update_checks import POLICY
from tests.dllm_rl.test_update import MASK, toy


def test_returns_until_error_by_hand() -> None:
    """γ = 0.5. The first goes on after the error of its second decision; the second ends with that of its first."""
    rewards = torch.tensor([[1.0, 2.0, 4.0], [3.0, 0.0, 0.0]])
    wrong = torch.tensor([[False, True, False], [True, False, False]])
    assert returns_until_error(rewards, wrong, 0.5).tolist() == [[2.0, 2.0, 4.0], [3.0, 0.0, 0.0]]


@pytest.mark.parametrize(("tokens_per_step", "on_error"), [(1, "end"), (1, "correct"), (3, "correct")])
def test_totals_by_loops(model: LladaForMaskedLM, batch: PuzzleBatch, tokens_per_step: int, on_error: str) -> None:
    generator = torch.Generator().manual_seed(2)
    record = rollout(
        model,
        batch,
        num_generations=4,
        policy=POLICY,
        tokens_per_step=tokens_per_step,
        on_error=on_error,  # type: ignore[arg-type]
        generator=generator,
    )
    assert bool(record.errors.any())
    found: dict[int, list[float]] = {}
    for row in range(len(record.live)):
        for k in range(int(record.live[row].sum())):
            total, j = 0.0, k
            while j < record.live.shape[1] and bool(record.live[row, j]):
                total += 0.9 ** (j - k) * float(record.expected_reward[record.state_of[row, j]])
                if bool(record.wrong[row, j]):
                    break
                j += 1
            found.setdefault(int(record.masked[record.state_of[row, k]]), []).append(total)
    sums, counts = totals_by_masked(record, 0.9, 20)
    expected = torch.zeros(2, 20, dtype=torch.float64)
    for masked, totals in found.items():
        expected[:, masked] = torch.tensor([sum(totals), len(totals)])
    torch.testing.assert_close(torch.stack([sums, counts]), expected, rtol=1e-5, atol=1e-6)


def test_values_between_numbers_that_were_met_lie_on_a_line() -> None:
    """Met: 2 and 4 masked positions; 0 are worth nothing, and more than 4 what 4 are."""
    means = CellValues(0.5, 6)
    assert means.by_masked().tolist() == [0.0] * 7
    totals = torch.zeros(2, 7, dtype=torch.float64)
    totals[:, 2], totals[:, 4] = torch.tensor([6.0, 2.0]), torch.tensor([4.0, 1.0])
    means.update(totals)
    assert means.by_masked().tolist() == [0.0, 1.5, 3.0, 3.5, 4.0, 4.0, 4.0]
    totals[:, 2] = torch.tensor([5.0, 1.0])
    totals[:, 4] = 0.0
    means.update(totals)
    assert means.by_masked().tolist() == [0.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0]


@given(st.dictionaries(st.integers(1, 9), st.floats(0, 20), max_size=9))
def test_what_was_met_is_kept_and_nothing_leaves_its_range(met: dict[int, float]) -> None:
    means = CellValues(0.5, 9)
    for masked, mean in met.items():
        means.values[masked] = mean
    table = means.by_masked().tolist()
    assert table[0] == 0.0 and all(table[masked] == mean for masked, mean in met.items())
    assert min(table) >= 0.0 and max(table) <= max([0.0, *met.values()])


def scored(model: LladaForMaskedLM, puzzle: PreFilled, responses: Tensor) -> ScoredStates:
    problems = PuzzleBatch.collate([puzzle], pad_id=0)
    of = torch.zeros(len(responses), dtype=torch.int64)
    scores = score_states(model, *problems.prompts_of(of), responses, MASK, POLICY)
    return ScoredStates(model, problems, responses, of, scores, POLICY)


def test_cells_are_read_by_the_positions_left_after_the_decision() -> None:
    model, puzzle = make_model(vocab_size=5, mask_token_id=MASK, d_model=16), toy((0, 5, 10), 0)
    start = torch.tensor([puzzle.token_ids[1:]])
    later = torch.where(torch.arange(16) == 5, torch.tensor(puzzle.layout.solution_ids[5]), start)
    means = CellValues(0.9, 16)
    means.values[1:4] = torch.tensor([1.0, 2.0, 3.0])
    found = means.at(scored(model, puzzle, torch.cat([start, later])))
    assert found.dtype == torch.float32 and found[:, 0].tolist() == [2.0, 1.0]


@pytest.fixture
def toy_model() -> LladaForMaskedLM:
    return make_model(vocab_size=5, mask_token_id=MASK, d_model=16, n_heads=2, n_kv_heads=1, mlp_hidden_size=16)


@pytest.mark.parametrize("max_tokens", [17, 65536])
def test_looking_ahead_is_exact_where_one_more_decision_ends_it(toy_model: LladaForMaskedLM, max_tokens: int) -> None:
    puzzle = toy((0, 5), 0)
    states = scored(toy_model, puzzle, torch.tensor([puzzle.token_ids[1:]]))._replace(max_tokens=max_tokens)
    found = LookAhead(0.9, 16, successors=2, gamma=0.8, lam=0.5).at(states)
    for ell in (0, 5):
        following = after(puzzle.token_ids, (ell, int(puzzle.layout.solution_ids[ell])), puzzle)
        expected = value(toy_model, following, puzzle, POLICY, 0.5, 0.8)
        assert float(found[0, ell]) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_looking_ahead_adds_what_cells_give_behind(toy_model: LladaForMaskedLM) -> None:
    """Three cells and a position of the tail; V(s') = f(s') + γ V̄(n' − 1) P(the decision in s' is right)."""
    puzzle = toy((0, 5, 10), 1)
    states = scored(toy_model, puzzle, torch.tensor([puzzle.token_ids[1:]]))
    toy_model.train()
    values = LookAhead(0.9, 17, successors=4, gamma=0.8, lam=0.5)
    values.values[2] = 1.7
    found = values.at(states)
    assert toy_model.training
    solution = dict(zip(puzzle.layout.cell_positions.tolist(), puzzle.layout.solution_ids.tolist(), strict=True))
    start = policy_at(toy_model, puzzle.token_ids, puzzle, POLICY)
    for ell in (0, 5, 10, 16):
        token = solution.get(ell, int(start.token[ell].argmax()))
        following = after(puzzle.token_ids, (ell, token), puzzle)
        policy = policy_at(toy_model, following, puzzle, POLICY)
        right = sum(
            (log_prob + (policy.token[at][solution[at]] if at in solution else 0.0)).exp()
            for at, log_prob in policy.position.items()
        )
        expected = f_of(policy, following, puzzle, 0.5) + 0.8 * 1.7 * right
        assert float(found[0, ell]) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_positions_that_are_not_scored_take_the_mean_of_the_likeliest(toy_model: LladaForMaskedLM) -> None:
    puzzle = toy((0, 5, 10), 0)
    states = scored(toy_model, puzzle, torch.tensor([puzzle.token_ids[1:]]))
    everything = LookAhead(0.9, 16, successors=16, gamma=0.8, lam=0.5).at(states)[0]
    some = LookAhead(0.9, 16, successors=2, gamma=0.8, lam=0.5).at(states)[0]
    order = states.scores.position_logprobs[0].argsort(descending=True)[:3]
    torch.testing.assert_close(some[order[:2]], everything[order[:2]])
    torch.testing.assert_close(some[order[2]], everything[order[:2]].mean())
    assert not torch.isclose(everything[order[2]], some[order[2]])


def test_states_in_one_batch_do_not_matter_to_each_other(model: LladaForMaskedLM, batch: PuzzleBatch) -> None:
    record = rollout(model, batch, num_generations=3, policy=POLICY, generator=torch.Generator().manual_seed(2))
    values = LookAhead(0.9, batch.responses.shape[1], successors=3, gamma=0.9, lam=0.5)
    values.update(totals_by_masked(record, 0.9, batch.responses.shape[1] + 1))

    def at(rows: Tensor) -> Tensor:
        responses, of = record.responses[rows], record.problem_of[rows]
        scores = score_states(model, *batch.prompts_of(of), responses, batch.mask_id, POLICY)
        return values.at(ScoredStates(model, batch, responses, of, scores, POLICY))

    rows = torch.arange(0, len(record.responses), 5)
    torch.testing.assert_close(at(rows), torch.cat([at(row[None]) for row in rows]), rtol=1e-4, atol=1e-5)


def test_averages_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="there are 10 averages, not 9"):
        CellValues(0.9, 8).load_state_dict(CellValues(0.9, 9).state_dict())
