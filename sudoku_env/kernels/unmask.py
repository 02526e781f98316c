"""What `SudokuUnmask-v0` keeps of B responses beside `dynamics.step_batch`: which actions are legal, and the boards."""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.general import find_singles
from sudoku_env.kernels.random import Int, Ints

NOT_A_DIGIT = -1


@kernel(nogil=True)
def find_legal(
    actions: Ints,
    states: Ints,
    over: NDArray[np.bool_],
    mask_id: Int,
    cell_at: Ints,
    legal: NDArray[np.bool_],
    cells: Ints,
) -> None:
    """Which actions are legal, and the cells that they fill.

    Args:
        actions: int64 `(B, 2)`, positions and tokens.
        states: int64 `(B, L)`, which end in the responses.
        over: bool `(B,)`, the rows that are not to act.
        mask_id: The mask token.
        cell_at: int64 `(R,)`, the cell at each response position, −1 outside the map.
        legal: bool `(B,)`, gets whether a row acts, on a masked position and with another token than the mask.
        cells: int64 `(B,)`, gets the cell that a legal action fills, else −1.
    """
    start = states.shape[1] - cell_at.size
    for b in range(actions.shape[0]):
        position, token = actions[b]
        legal[b] = not over[b] and states[b, start + position] == mask_id and token != mask_id
        cells[b] = cell_at[position] if legal[b] else -1


@kernel(nogil=True)
def write_cells(
    cells: Ints,
    tokens: Ints,
    digit_ids: Ints,
    boards: NDArray[np.int16],
    orders: Ints,
    definite: NDArray[np.bool_],
    steps: Ints,
    error: NDArray[np.bool_],
    units: Ints,
    units_of: Ints,
) -> None:
    """Bring boards, orders and definite cells up to date after a step.

    Args:
        cells: int64 `(B,)`, the cell that a row has filled, −1 for none.
        tokens: int64 `(B,)`, what was written there.
        digit_ids: int64 `(n,)`, the token of each digit.
        boards: int16 `(B, n²)`, 0 for a mask, 1..n for a digit, −1 for any other token.
        orders: int64 `(B, n²)`, as in `kernels.play.InPlay`.
        definite: bool `(B, n²)`, the cells that are definite; none once a cell is wrong.
        steps: int64 `(B,)`, steps taken, this one included.
        error: bool `(B,)`, whether a cell is wrong.
        units: int64 `(3n, n)`, the cells of each unit.
        units_of: int64 `(n², 3)`, the units of each cell.
    """
    used = np.empty(units.shape[0], np.int64)
    masks = np.empty(boards.shape[1], np.int64)
    singles = np.empty(boards.shape[1], np.int64)
    for b in range(cells.size):
        cell = cells[b]
        if cell < 0:
            continue
        boards[b, cell] = NOT_A_DIGIT
        for digit in range(digit_ids.size):
            if digit_ids[digit] == tokens[b]:
                boards[b, cell] = digit + 1
        orders[b, cell] = steps[b] if definite[b, cell] else -steps[b]
        definite[b] = False
        if not error[b]:
            find_singles(boards[b], units, units_of, used, masks, singles)
            for k in range(singles.size):
                definite[b, k] = singles[k] != 0
