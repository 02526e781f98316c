"""The comparison on puzzles with one solution: what is held out, what is right, and two methods in small."""

import numpy as np
import pytest
import torch

from scripts.referee.unique import Unique, UniqueArguments
from sudoku_dllm.trials.record import Records
from sudoku_env.solver import solve_batch
from sudoku_env.split import split_of
from tests.scripts.helpers.started import in_small


def test_puzzles_have_one_solution_and_no_grid_is_in_both_splits() -> None:
    one = Unique(UniqueArguments(boards=20, test_boards=12))
    tests, training = one.setting.test_boards(), one.drawn("train", 20, 0)
    assert tests.shape == (12, 36) and training.shape == (20, 36)
    for boards, split in ((tests, "test"), (training, "train")):
        solutions, counts = solve_batch(boards, limit=2)
        assert (counts == 1).all() and {split_of(solution) for solution in solutions} == {split}
        assert {10 <= clues <= 13 for clues in (boards > 0).sum(1)} == {True}
    assert len(one.training_problems(0)) == 20 and not np.array_equal(training, one.drawn("train", 20, 1))
    assert np.array_equal(tests, Unique(UniqueArguments(boards=5, test_boards=12)).setting.test_boards())


def test_only_the_solution_is_right() -> None:
    batch = Unique(UniqueArguments(boards=20, test_boards=3)).test_batch()
    assert not batch.several
    wrong, answers = batch.answers.clone(), batch.answers[0]
    cell = int((batch.responses[0] == batch.mask_id).nonzero()[0])
    wrong[0, cell] = answers[batch.judged[0] & (answers != answers[cell])][0]
    every = torch.arange(3)
    assert batch.completable(batch.answers, every).all()
    assert batch.completable(wrong, every).tolist() == [False, True, True]


@pytest.mark.slow
def test_two_methods_in_small(tmp_path) -> None:
    words = "trace_rl judged --boards 40 --test_boards 6 --max_steps 2 --prompts 2 --num_generations 2"
    in_small("referee/unique.py", tmp_path / "run", *words.split())
    assert Records(tmp_path / "run").outcomes("judged/seed0")["right/4"].shape == (6,)
