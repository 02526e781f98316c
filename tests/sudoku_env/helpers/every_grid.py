"""All 288 grids of 4×4, by backtracking, and what a board's solutions are among them."""

from functools import cache

import numpy as np

from tests.sudoku_env.helpers import sudoku_reference as reference


@cache
def every_grid():
    """uint8 `(288, 16)`."""
    grids = np.array(list(reference.solutions(np.zeros(16, dtype=int))), dtype=np.uint8)
    assert grids.shape == (288, 16)
    return grids


def solutions_of(board):
    """uint8 `(M, 16)`, the solutions of a board `(16,)` whose entries are 0 for a blank."""
    board = np.asarray(board)
    return every_grid()[((board == 0) | (every_grid() == board)).all(1)]


def may_stand(board, guard):
    """Whether a board has a solution, or by "rules" no digit twice in a unit."""
    if guard == "completable":
        return len(solutions_of(board)) > 0
    return all(np.bincount(board[unit], minlength=2)[1:].max() <= 1 for unit in reference.units(4))


def backbone_of(board):
    """uint8 `(16,)`, the digit that a blank has in every solution; 0 where they differ and in filled cells."""
    found = solutions_of(board)
    if not len(found):
        return np.zeros(16, dtype=np.uint8)
    return np.where((found == found[0]).all(0) & (np.asarray(board) == 0), found[0], 0)


def random_digits(count, size, share, rng):
    """Boards `(count, n²)` whose cells hold any digit with some probability, nearly all of them contradictory."""
    cells = (count, size * size)
    return np.where(rng.random(cells) < share, rng.integers(1, size + 1, cells), 0)


def random_board(rng, most=16):
    """Part of a random grid, up to so many clues, at times with a digit replaced."""
    grid = every_grid()[rng.integers(288)]
    board = np.where(rng.permutation(16) < rng.integers(most + 1), grid, 0)
    if rng.random() < 0.4:
        board[rng.integers(16)] = rng.integers(1, 5)
    return board.astype(np.uint8)
