"""What a state that follows is worth."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dllm_rl.decoding import OnError
from dllm_rl.decoding.rollouts import rollout
from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.policy import score_states
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.terms.states import ScoredStates
from dllm_rl.terms.values import CellValues, returns_until_error, totals_by_masked
from sudoku_env.prompts.tokens import PreFilled
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.dllm_rl.helpers.update_checks import DRAWN, POLICY
from tests.dllm_rl.training.test_update import MASK, toy


def test_returns_until_error_by_hand() -> None:
    """γ = 0.5. The first goes on after the error of its second decision; the second ends with that of its first."""
    rewards = torch.tensor([[1.0, 2.0, 4.0], [3.0, 0.0, 0.0]])
    wrong = torch.tensor([[False, True, False], [True, False, False]])
    assert returns_until_error(rewards, wrong, 0.5).tolist() == [[2.0, 2.0, 4.0], [3.0, 0.0, 0.0]]


@pytest.mark.parametrize(("tokens_per_step", "on_error"), [(1, "end"), (1, "correct"), (3, "correct")])
def test_totals_by_loops(model: LladaForMaskedLM, batch: PuzzleBatch, tokens_per_step: int, on_error: OnError) -> None:
    how, generator = (
        replace(DRAWN, tokens_per_step=tokens_per_step, on_error=on_error),
        torch.Generator().manual_seed(2),
    )
    record = rollout(model, batch, how, num_generations=4, generator=generator)
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
    return ScoredStates(problems, responses, of, problems.definite(responses, of), scores, POLICY)


def test_cells_are_read_by_the_positions_left_after_the_decision() -> None:
    model, puzzle = make_model(vocab_size=5, mask_token_id=MASK, d_model=16), toy((0, 5, 10), 0)
    start = torch.tensor([puzzle.token_ids[1:]])
    later = torch.where(torch.arange(16) == 5, torch.tensor(puzzle.layout.solution_ids[5]), start)
    means = CellValues(0.9, 16)
    means.values[1:4] = torch.tensor([1.0, 2.0, 3.0])
    found = means.at(scored(model, puzzle, torch.cat([start, later])))
    assert found.dtype == torch.float32 and found[:, 0].tolist() == [2.0, 1.0]


def test_means_start_at_the_first_and_keep_what_is_not_seen() -> None:
    means = CellValues(0.75, 2)
    assert means.values.isnan().all()
    means.update(torch.tensor([[8.0, 6.0, 0.0], [2.0, 3.0, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(means.values, torch.tensor([4.0, 2.0, math.nan]).double(), equal_nan=True)
    means.update(torch.tensor([[0.0, 6.0, 9.0], [0.0, 1.0, 1.0]], dtype=torch.float64))
    torch.testing.assert_close(means.values, torch.tensor([4.0, 3.0, 9.0]).double())


def test_a_state_goes_round_and_shares_no_memory() -> None:
    means, other = CellValues(0.5, 1), CellValues(0.5, 1)
    means.update(torch.ones(2, 2, dtype=torch.float64))
    saved = means.state_dict()
    other.load_state_dict(saved)
    saved["values"].zero_()
    assert other.values.tolist() == means.values.tolist() == [1.0, 1.0]


def test_averages_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="there are 10 averages, not 9"):
        CellValues(0.9, 8).load_state_dict(CellValues(0.9, 9).state_dict())
