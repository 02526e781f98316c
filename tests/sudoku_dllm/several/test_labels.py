"""One completion of each board by a rule, against all of them."""

import numpy as np
import pytest

from sudoku_dllm.several.labels import least_answer
from sudoku_env.generator import generate
from sudoku_env.solver import solve_batch
from tests.sudoku_env.helpers.every_grid import solutions_of


def test_the_least_answer_is_what_enumeration_says() -> None:
    boards = generate(60, size=4, clues=(0, 6), answers="any", seed=7).boards
    for board, least in zip(boards, least_answer(boards), strict=True):
        assert least.tolist() == min(solutions_of(board).tolist())


def test_a_board_without_a_completion_is_named() -> None:
    board = np.zeros((1, 16), np.uint8)
    board[0, :2] = 1
    with pytest.raises(ValueError, match="the board 1100000000000000 has no completion"):
        least_answer(board)


def test_no_smaller_digit_of_a_least_answer_leaves_a_completion() -> None:
    """On 9×9, where completions cannot be listed: each prefix with a smaller digit next is a dead end."""
    boards = generate(6, size=9, clues=(4, 24), answers="any", seed=3).boards
    least, tried = least_answer(boards), []
    assert (solve_batch(least)[1] == 1).all() and ((boards == 0) | (boards == least)).all()
    for board, answer in zip(boards, least, strict=True):
        for cell in np.flatnonzero(board == 0):
            for digit in range(1, answer[cell]):
                tried.append(np.where(np.arange(81) < cell, answer, board))
                tried[-1][cell] = digit
    assert len(tried) > 100 and not solve_batch(np.array(tried))[1].any()
