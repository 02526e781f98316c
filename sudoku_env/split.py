"""Train, validation and test splits by solution grid, up to the symmetries of Sudoku."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, BoardLike, as_board
from sudoku_env.errors import BoardError, SudokuError
from sudoku_env.grids import canonical_grid

SPLITS = ("train", "validation", "test")
SHARES = (0.6, 0.2, 0.2)


def split_of(solution: BoardLike, *, up_to_symmetry: bool = True) -> str:
    """The split that a solution grid belongs to; all images of a grid under a symmetry belong to the same one.

    The choice is a hash of the canonical grid, so it is the same everywhere and needs no table. There are only 49
    classes of 6×6 grids and 2 of 4×4, of unequal frequency, so the shares of puzzles come out near `SHARES` only.

    Args:
        solution: A full board of size 4, 6 or 9.
        up_to_symmetry: False hashes the grid itself, of any size: then images of a grid may fall into other splits,
            which is all that 4×4 allows if no split is to be empty.

    Raises:
        BoardError: `canonical_grid` refuses the grid.
    """
    position = int.from_bytes(hashlib.sha256(grid_key(solution, up_to_symmetry)).digest()[:8], "big") / 2**64
    return SPLITS[int(np.searchsorted(np.cumsum(SHARES)[:-1], position, side="right"))]


def grid_key(solution: BoardLike, up_to_symmetry: bool = True) -> bytes:
    """What `split_of` hashes: the canonical grid, or the grid itself; a board that is not full is refused."""
    if up_to_symmetry:
        return canonical_grid(solution)
    grid = as_board(solution)
    if not grid.all():
        raise BoardError("grid_key needs a full grid; solve the puzzle first")
    return grid.tobytes()


def in_split(solutions: Board, name: str) -> NDArray[np.bool_]:
    """Which of the solution grids `(N, n²)` belong to a split, bool `(N,)`, as `split_of` deals them."""
    if name not in SPLITS:
        raise SudokuError(f"split {name!r} is unknown; choose one of {SPLITS}")
    return np.array([split_of(solution) == name for solution in solutions], dtype=bool)
