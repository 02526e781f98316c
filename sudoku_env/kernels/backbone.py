"""The digits that stand in every solution of a board."""

import numpy as np

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.random import Ints
from sudoku_env.kernels.search import begin, begin_beside, run
from sudoku_env.kernels.search_state import CELL, PHASE, UNFINISHED, Search

# Phases of a search for the backbone
NOT_BEGUN, COUNTING, BETWEEN_CELLS, IN_A_CELL = range(4)


@kernel
def find_backbone(board: Board, units: Ints, units_of: Ints, out: Board, search: Search) -> bool:
    """Fill `out`, uint8 `(n²,)`, with the digit that each blank cell has in every solution.

    It is 0 where solutions differ, in filled cells, and throughout if there is no solution.

    Returns:
        False where what was left is used up; the next call, with the same arguments, goes on.
    """
    state = search.state
    if state[PHASE] == NOT_BEGUN:
        begin(board, units_of, search)
        state[PHASE] = COUNTING
    if state[PHASE] == COUNTING:
        count = run(units, units_of, 2, out, search)
        if count == UNFINISHED:
            return False
        if count == 0:
            out[:] = 0
        state[PHASE], state[CELL] = BETWEEN_CELLS, 0 if count > 1 else board.size
    # A cell keeps its digit of the first solution if no solution has another one there.
    while state[CELL] < board.size:
        cell = state[CELL]
        if board[cell] == 0 and out[cell]:
            if state[PHASE] == BETWEEN_CELLS:
                begin_beside(board, cell, np.int64(out[cell]), units_of, search)
                state[PHASE] = IN_A_CELL
            count = run(units, units_of, 1, search.other, search)
            if count == UNFINISHED:
                return False
            state[PHASE] = BETWEEN_CELLS
            if count:
                zero_differences(out, search.other)
        state[CELL] += 1
    for cell in range(board.size):
        if board[cell]:
            out[cell] = 0
    state[PHASE] = NOT_BEGUN
    return True


@kernel
def zero_differences(out: Board, other: Board) -> None:
    """Zero the cells of `out` in which `other` has another digit."""
    for cell in range(out.size):
        if other[cell] != out[cell]:
            out[cell] = 0
