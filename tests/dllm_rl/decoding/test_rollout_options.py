"""The tail's rewards, the rule of S1 and parts of a roll-out."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.policy import PolicyConfig
from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from sudoku_env.logic import definite_cells
from sudoku_env.prompts.tokens import PreFilled
from tests.dllm_rl.helpers.policy_reference import f_of, policy_at
from tests.dllm_rl.helpers.update_checks import DRAWN, POLICY, uneven_rollout


@pytest.fixture
def scored(puzzles: list[PreFilled], tokenizer: PreTrainedTokenizerFast) -> PuzzleBatch:
    return SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id, tail="scored").batch(puzzles[:3])


def reward(batch: PuzzleBatch, record: Rollout, puzzle: int, state: int, position: int, token: int) -> float:
    """The reward by definition, with a scored tail and λ = 0.3."""
    right = token == int(batch.answers[puzzle, position])
    if not batch.judged[0][position]:
        return 0.3 if right else 0.0
    return float(right and bool(record.definite[state, position]))


def test_f_of_a_scored_tail_is_the_reward_averaged_over_all_actions(model, scored, puzzles) -> None:
    record = rollout(model, scored, DRAWN, num_generations=4, lam=0.3, generator=torch.Generator().manual_seed(0))
    assert record.policy == POLICY
    for state in range(0, len(record.responses), 3):
        puzzle = puzzles[index := int(record.problem_of[state])]
        tokens = [*puzzle.token_ids[: puzzle.prompt_length], *record.responses[state].tolist()]
        with torch.no_grad():
            policy = policy_at(model, tokens, puzzle, POLICY)
        mean = sum(
            float((policy.position[ell] + log_prob).exp()) * reward(scored, record, index, state, ell, token)
            for ell, log_probs in policy.token.items()
            for token, log_prob in enumerate(log_probs)
        )
        assert float(record.expected_reward[state]) == pytest.approx(mean, abs=1e-12)
        free = float(f_of(policy, tokens, puzzle, 0.3))
        if any(not scored.judged[0][ell] for ell in policy.position):
            assert mean < free


def test_a_scored_tail_pays_for_the_right_token_alone(model, scored) -> None:

    def tail_both_right_and_wrong(record: Rollout) -> bool:
        tail = record.live & ~scored.judged[0][record.positions[..., 0]]
        return len(record.rewards[tail].unique()) == 2

    how, options = replace(DRAWN, policy=PolicyConfig(3.0, 3.0)), {"num_generations": 60, "lam": 0.3}
    record = uneven_rollout(model, scored, how, seed=1, has=tail_both_right_and_wrong, **options)
    for row, column in record.live.nonzero().tolist():
        state, position = int(record.state_of[row, column]), int(record.positions[row, column, 0])
        expected = reward(scored, record, row // 60, state, position, int(record.tokens[row, column, 0]))
        assert float(record.rewards[row, column]) == pytest.approx(expected)


@pytest.mark.parametrize("rule", ["naked_single", "singles", "pairs", "backbone"])
def test_forced_cells_are_those_of_the_rule(model, batch, rule) -> None:
    generator = torch.Generator().manual_seed(0)
    record = rollout(model, replace(batch, rule=rule), DRAWN, num_generations=4, generator=generator)
    boards = batch.boards(record.responses)
    cells = record.definite[:, torch.tensor(batch.layout.cell_positions)].numpy()
    assert np.array_equal(cells, definite_cells(boards, rule) > 0) and int(record.definite.sum()) == cells.sum()
    if rule == "naked_single":  # they are fewer at the start already, as the puzzles were chosen
        assert cells.sum() < (definite_cells(boards) > 0).sum()
