"""Puzzles with several right answers as problems: answers that follow the state, peers, and what is refused."""

import pytest
import torch

from dllm_rl import Decoding, rollout
from dllm_rl.batch_check import check_batch
from dllm_rl.policy import PolicyConfig
from dllm_rl.sudoku import PuzzleBatch
from sudoku_env import generate
from sudoku_env.logic import definite_cells
from tests.dllm_rl.helpers.tiny_training import prefilled, puzzles, sudoku_task, warm_model


def few_clues(count: int) -> PuzzleBatch:
    boards = generate(count, size=4, clues=(1, 4), answers="any", seed=3).boards
    return sudoku_task().batch(prefilled(boards, answers="any"))


def test_answers_follow_the_state() -> None:
    """Of every state that a roll-out visits: a grid that agrees with it, whatever the first answer was."""
    problems = few_clues(6)
    how = Decoding("policy", tokens_per_step=2, policy=PolicyConfig(1.0, 1.0), on_error="redraw")
    record = rollout(warm_model(), problems, how, num_generations=4, generator=torch.Generator().manual_seed(0))
    answers = problems.answers_to(record.responses, record.problem_of)
    written = record.responses != problems.mask_id
    kept = written & problems.judged[record.problem_of]
    assert torch.equal(answers[kept], record.responses[kept])
    assert bool(problems.completable(answers, record.problem_of).all())
    astray = (answers != problems.answers[record.problem_of]).any(1)
    assert bool(astray.any())  # some left the first answer


def test_definite_tokens_earn_one() -> None:
    """A digit that follows from the state earns 1, all others 0, also where the first answer has been left."""
    problems = few_clues(6)
    how = Decoding("policy", policy=PolicyConfig(1.0, 1.0), on_error="end")
    record = rollout(warm_model(), problems, how, num_generations=8, generator=torch.Generator().manual_seed(1))
    definite = definite_cells(problems.boards(record.responses))
    cell_of = {int(place): cell for cell, place in enumerate(problems.layout.cell_positions)}
    digit_of = {int(token): digit for digit, token in enumerate(problems.layout.digit_ids, start=1)}
    for trajectory, step in record.live.nonzero().tolist():
        state = int(record.state_of[trajectory, step])
        place, token = int(record.positions[trajectory, step, 0]), int(record.tokens[trajectory, step, 0])
        right = place in cell_of and definite[state, cell_of[place]] == digit_of.get(token, -1)
        earned = float(record.rewards[trajectory, step])
        assert earned == (1.0 if right else 0.0 if place in cell_of else pytest.approx(earned))


def test_answers_need_not_be_known() -> None:
    problems = few_clues(2)
    problems.answers[:] = problems.mask_id
    written = problems.responses != problems.mask_id
    problems.answers[written] = problems.responses[written]
    check_batch(problems)
    one = sudoku_task().batch(puzzles(2))
    one.answers[one.judged] = one.mask_id
    with pytest.raises(ValueError, match="a position that is judged needs its right token"):
        check_batch(one)
