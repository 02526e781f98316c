"""The digits that stand in every solution of a board.

Constants are passed on as `np.int64(…)`: for a literal numba compiles the function that it is passed to once more.
"""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.general import find_candidates, search
from sudoku_env.kernels.nine import WORK, count9, other_solution9
from sudoku_env.kernels.random import Ints


@kernel
def find_backbone(board: Board, units: Ints, units_of: Ints, out: Board) -> None:
    """Fill `out`, uint8 `(n²,)`, with the digit that each blank cell has in every solution.

    It is 0 where solutions differ, in filled cells, and throughout if there is no solution.
    """
    out[:] = 0
    if units.shape[1] == 9:
        words = np.empty(WORK, np.uint32)
        count = count9(board, np.int64(2), out, words)
        if count > 1:
            keep_common_digits9(board, out, words)
    else:
        count = search(board, units, units_of, np.int64(2), np.int64(0), np.empty(0, np.uint64), out)
        if count > 1:
            keep_common_digits(board, units, units_of, out)
    for cell in range(board.size):
        if count == 0 or board[cell]:
            out[cell] = 0


@kernel
def keep_common_digits9(board: Board, out: Board, words: NDArray[np.uint32]) -> None:
    """`keep_common_digits` for 9×9; `words` is work space of `kernels.nine`."""
    other = np.empty_like(board)
    for cell in range(board.size):
        if board[cell] == 0 and out[cell] and other_solution9(board, cell, np.int64(out[cell]), other, words):
            zero_differences(out, other)


@kernel
def keep_common_digits(board: Board, units: Ints, units_of: Ints, out: Board) -> None:
    """Zero the cells of a solution `out` that have another digit in another solution of the board."""
    no_rng = np.empty(0, np.uint64)
    trial, other = board.copy(), np.empty_like(board)
    used, masks = np.empty(units.shape[0], np.int64), np.empty(board.size, np.int64)
    find_candidates(board, units_of, used, masks)
    for cell in range(board.size):
        for digit in range(1, units.shape[1] + 1):
            if out[cell] in (0, digit) or not (masks[cell] >> (digit - 1)) & 1:
                continue
            trial[cell] = digit
            if search(trial, units, units_of, np.int64(1), np.int64(0), no_rng, other):
                zero_differences(out, other)
            trial[cell] = board[cell]


@kernel
def zero_differences(out: Board, other: Board) -> None:
    """Zero the cells of `out` in which `other` has another digit."""
    for cell in range(out.size):
        if other[cell] != out[cell]:
            out[cell] = 0
