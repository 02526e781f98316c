"""Candidates and forced cells: what the digits on a board imply without look-ahead.

A naked single is a blank cell with one candidate left; a hidden single is the one blank cell of a row, column or box
where a digit can still go. Both are read off the digits now on the board (mdp: seed 001, the set S1).
"""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, BoardLike, as_board, as_boards, geometry, is_solved, size_of
from sudoku_env.kernels.general import candidates_batch, forced_batch


def candidates(boards: NDArray[np.integer]) -> NDArray[np.bool_]:
    """The digits that stand in no peer of a blank cell.

    Args:
        boards: `(n²,)` or `(N, n²)` integers, 0 for a blank. Contradictory boards are fine.

    Returns:
        bool `(n², n)` or `(N, n², n)`: whether digit d+1 is possible in the cell; False throughout in filled cells.

    Raises:
        BoardError: Wrong shape or a value out of range.
    """
    flat = as_boards(boards)
    size = size_of(flat.shape[-1])
    batch = flat.reshape(-1, size * size)
    masks = np.zeros(batch.shape, dtype=np.int64)
    table = geometry(size)
    candidates_batch(batch, table.units, table.units_of, masks)
    return ((masks[:, :, None] >> np.arange(size)) & 1).astype(np.bool_).reshape(*flat.shape, size)


def forced_digits(boards: NDArray[np.integer]) -> Board:
    """The digit that a naked or hidden single forces in each blank cell.

    A board may be contradictory. A naked and a hidden single of one cell never disagree, as both are its candidates;
    two hidden ones may, and then the row's comes before the column's before the box's, and the lower digit first.

    Args:
        boards: `(n²,)` or `(N, n²)` integers, 0 for a blank.

    Returns:
        uint8 of the same shape: the forced digit, 0 where none is forced and in filled cells.

    Raises:
        BoardError: Wrong shape or a value out of range.
    """
    flat = as_boards(boards)
    size = size_of(flat.shape[-1])
    batch = flat.reshape(-1, size * size)
    forced = np.zeros_like(batch)
    table = geometry(size)
    forced_batch(batch, table.units, table.units_of, forced)
    return forced.reshape(flat.shape)


def solve_by_singles(board: BoardLike) -> Board:
    """The board with singles filled in, round by round, until none is forced.

    On a contradictory board the result may hold a clash; on any other every digit filled in stands in every solution.

    Raises:
        BoardError: Wrong shape or a value out of range.
    """
    return _fill_in_rounds(board)[0]


def singles_rounds(board: BoardLike) -> int:
    """Rounds of "fill all forced cells at once" that solve the board: 0 if it is solved, −1 if singles do not do it.

    Raises:
        BoardError: Wrong shape or a value out of range.
    """
    filled, rounds = _fill_in_rounds(board)
    return rounds if is_solved(filled) else -1


def _fill_in_rounds(board: BoardLike) -> tuple[Board, int]:
    filled = as_board(board)
    rounds = 0
    while (forced := forced_digits(filled)).any():
        filled += forced
        rounds += 1
    return filled, rounds
