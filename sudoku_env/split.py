"""Train, validation and test splits by solution grid, up to the symmetries of Sudoku."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, BoardLike
from sudoku_env.errors import SudokuError
from sudoku_env.generator import canonical_grid

SPLITS = ("train", "validation", "test")


def split_of(solution: BoardLike, shares: Sequence[float] = (0.6, 0.2, 0.2)) -> str:
    """The split that a solution grid belongs to; all images of a grid under a symmetry belong to the same one.

    The choice is a hash of the canonical grid, so it is the same everywhere and needs no table. There are only 49
    classes of 6×6 grids and 2 of 4×4, of unequal frequency, so the shares of puzzles come out near `shares` only.

    Args:
        solution: A full board of size 4 or 6.
        shares: Shares of the hash range for train, validation and test; they add up to 1.

    Raises:
        SudokuError: The shares are not three numbers that add up to 1.
        BoardError: See `canonical_grid`.
    """
    if len(shares) != len(SPLITS) or min(shares) < 0 or abs(sum(shares) - 1) > 1e-9:
        raise SudokuError(f"shares {tuple(shares)} must be three non-negative numbers that add up to 1")
    digest = hashlib.sha256(canonical_grid(solution)).digest()
    position = int.from_bytes(digest[:8], "big") / 2**64
    return SPLITS[int(np.searchsorted(np.cumsum(shares)[:-1], position, side="right"))]


def in_split(solutions: Board, name: str) -> NDArray[np.bool_]:
    """Which of the solution grids `(N, n²)` belong to a split, bool `(N,)`.

    Raises:
        SudokuError: No split has that name.
    """
    if name not in SPLITS:
        raise SudokuError(f"split {name!r} is unknown; choose one of {SPLITS}")
    return np.array([split_of(solution) == name for solution in solutions], dtype=bool)
