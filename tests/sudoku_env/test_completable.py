"""Which boards have a solution, against enumeration and against backtracking."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import completable, generate
from sudoku_env.board import SIZES
from sudoku_env.errors import BoardError
from tests.sudoku_env.helpers import sudoku_reference as reference
from tests.sudoku_env.helpers.every_grid import every_grid, random_board, solutions_of

GRIDS = {size: generate(20, size=size, clues=size * size, seed=5).solutions for size in (4, 6)}


def test_boards_of_four_against_all_grids():
    pairs = [
        (one, two, *digits) for one, two in combinations(range(16), 2) for digits in product(range(1, 5), repeat=2)
    ]
    boards = np.zeros((len(pairs), 16), dtype=np.uint8)
    for board, (one, two, *digits) in zip(boards, pairs, strict=True):
        board[[one, two]] = digits
    rng = np.random.default_rng(0)
    boards = np.concatenate([boards, [random_board(rng) for _ in range(2000)], every_grid()])
    expected = np.array([len(solutions_of(board)) > 0 for board in boards])
    found = completable(boards)
    assert found.dtype == np.bool_ and found.shape == (len(boards),)
    assert (found == expected).all() and expected.any() and not expected.all()
    assert (completable(boards.astype(np.int64), threads=2) == expected).all()


@settings(max_examples=100)
@given(st.sampled_from([4, 6]), st.floats(0.3, 0.9), st.integers(0, 3), st.integers(0, 2**32))
def test_thinned_grids_with_digits_replaced_against_backtracking(size, share, replaced, seed):
    rng = np.random.default_rng(seed)
    board = np.where(rng.random(size * size) < share, GRIDS[size][rng.integers(20)], 0)
    board[rng.integers(size * size, size=replaced)] = rng.integers(1, size + 1, size=replaced)
    before = board.copy()
    assert completable(board[None])[0] == (next(reference.solutions(board), None) is not None)
    assert (board == before).all()


@pytest.mark.parametrize("size", SIZES)
def test_every_size(size):
    (grid,) = generate(1, size=size, clues=size * size, seed=1).solutions
    clash, taken = grid.copy(), np.zeros_like(grid)
    clash[0] = clash[1]
    # The first cell of a blank board whose peers hold every digit: a row without n, and n in the column.
    taken[1:size] = np.arange(1, size)
    taken[size * (size - 1)] = size
    boards = np.array([grid, clash, np.zeros_like(grid), taken])
    assert completable(boards).tolist() == [True, False, True, False]
    assert completable(boards[:0]).shape == (0,)


def test_what_is_no_batch_of_boards_is_refused():
    for boards, message in (
        (np.zeros(16, int), "completable needs boards of shape"),
        (np.zeros((2, 17), int), "17 cells do not make a board"),
        (np.full((2, 16), 5), "holds 5"),
        (np.zeros((2, 16)), "need integers"),
    ):
        with pytest.raises(BoardError, match=message):
            completable(boards)
    with pytest.raises(BoardError, match="threads must be at least 1"):
        completable(np.zeros((2, 16), int), threads=0)
