"""Sudoku solver: one solution, the number of solutions up to a limit, and both for many boards at once."""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, BoardLike, as_board, as_boards, geometry, size_of
from sudoku_env.errors import BoardError
from sudoku_env.kernels.general import search_batch


def solve(board: BoardLike, *, size: int | None = None) -> Board | None:
    """One solution of a board, or None if it has none (a clash among its digits included).

    The same board always gives the same solution. Use `count_solutions` to see whether it is the only one.

    Args:
        board: Anything `as_board` takes.
        size: The size it must have, or None to take it from the number of cells.

    Returns:
        uint8 `(n²,)`, or None.

    Raises:
        BoardError: The board has a wrong shape or a value out of range.
    """
    solutions, counts = solve_batch(as_board(board, size)[None])
    return solutions[0] if counts[0] else None


def count_solutions(board: BoardLike, limit: int = 2) -> int:
    """Number of solutions, counted up to `limit`; 0 for a board with a clash.

    Raises:
        BoardError: The board has a wrong shape or a value out of range, or the limit is below 1.
    """
    return int(solve_batch(as_board(board)[None], limit=limit)[1][0])


def solve_batch(boards: NDArray[np.integer], *, limit: int = 1) -> tuple[Board, NDArray[np.int64]]:
    """Solve many boards of one size.

    Args:
        boards: `(N, n²)` integers, 0 for a blank.
        limit: Count solutions of each board up to this number; 2 tells whether the solution is unique.

    Returns:
        Solutions uint8 `(N, n²)`, zeros where there is none, and counts int64 `(N,)`.

    Raises:
        BoardError: Wrong shape or a value out of range, or the limit is below 1.
    """
    if limit < 1:
        raise BoardError(f"limit must be at least 1, got {limit}")
    flat = as_boards(boards)
    if flat.ndim != 2:
        raise BoardError(f"solve_batch needs boards of shape (N, n²), got {flat.shape}; use solve for one board")
    table = geometry(size_of(flat.shape[1]))
    solutions = np.zeros_like(flat)
    counts = np.zeros(len(flat), dtype=np.int64)
    search_batch(flat, table.units, table.units_of, limit, solutions, counts)
    return solutions, counts
