"""What `SudokuUnmask-v0` keeps of B responses beside `dynamics.write_pairs`: legal actions, and the boards."""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.general import find_singles
from sudoku_env.kernels.random import Int, Ints

NOT_A_DIGIT = -1
NO_POSITION = -1


@kernel(nogil=True)
def list_pairs(
    actions: Ints,
    states: Ints,
    over: NDArray[np.bool_],
    mask_id: Int,
    cell_at: Ints,
    orders: Ints,
    legal: NDArray[np.bool_],
) -> Ints:
    """Which actions are legal, and what these write.

    Args:
        actions: int64 `(B, k, 2)`, positions and tokens. `NO_POSITION` is no position, and R + ℓ stands for masking
            position ℓ of R again, whatever the token.
        states: int64 `(B, L)`, which end in the responses.
        over: bool `(B,)`, the rows that are not to act.
        mask_id: The mask token.
        cell_at: int64 `(R,)`, the cell at each response position, −1 outside the map.
        orders: int64 `(B, n²)`, as in `kernels.play.InPlay`.
        legal: bool `(B,)`, gets whether a row acts: it fills positions that are masked, masks cells again that an
            action has filled, names each position once, and no token is the mask.

    Returns:
        int64 `(M, 4)`, the row, the position, the token (the mask where a cell is masked again) and the cell (−1
        outside the map) of all pairs of the legal actions, row by row.
    """
    start = states.shape[1] - cell_at.size
    pairs = np.empty((actions.shape[0] * actions.shape[1], 4), np.int64)
    count = 0
    for b in range(actions.shape[0]):
        legal[b] = not over[b]
        first = count
        for j in range(actions.shape[1]):
            position, token = actions[b, j]
            if not legal[b] or position == NO_POSITION:
                continue
            legal[b] = token != mask_id
            if position < cell_at.size:
                legal[b] &= states[b, start + position] == mask_id
            else:
                position, token = position - cell_at.size, mask_id
                legal[b] &= cell_at[position] >= 0 and orders[b, cell_at[position]] != 0
            for earlier in range(first, count):
                legal[b] &= pairs[earlier, 1] != position
            pairs[count, 0], pairs[count, 1], pairs[count, 2] = b, position, token
            pairs[count, 3] = cell_at[position]
            count += 1
        # One illegal pair takes the whole action with it.
        if not legal[b]:
            count = first
    return pairs[:count]


@kernel(nogil=True)
def write_cells(
    pairs: Ints,
    states: Ints,
    astray: NDArray[np.bool_],
    mask_id: Int,
    digit_ids: Ints,
    boards: NDArray[np.int16],
    orders: Ints,
    definite: NDArray[np.bool_],
    steps: Ints,
    start: Int,
    units: Ints,
    units_of: Ints,
) -> None:
    """Bring boards, orders and definite cells up to date after a step.

    Args:
        pairs: int64 `(M, 4)`, as `list_pairs` gives them.
        states: int64 `(B, L)`, after the step.
        astray: bool `(B,)`, whether a wrong token stands in a cell, so that no cell is definite.
        mask_id: The mask token.
        digit_ids: int64 `(n,)`, the token of each digit.
        boards: int16 `(B, n²)`, 0 for a mask, 1..n for a digit, −1 for any other token.
        orders: int64 `(B, n²)`, as in `kernels.play.InPlay`.
        definite: bool `(B, n²)`, the cells that are definite.
        steps: int64 `(B,)`, steps taken, this one included.
        start: Where the responses begin in the states.
        units: int64 `(3n, n)`, the cells of each unit.
        units_of: int64 `(n², 3)`, the units of each cell.
    """
    used = np.empty(units.shape[0], np.int64)
    masks = np.empty(boards.shape[1], np.int64)
    singles = np.empty(boards.shape[1], np.int64)
    filled = False
    for pair in range(len(pairs)):
        b, position, _, cell = pairs[pair]
        if cell >= 0:
            filled = True
            boards[b, cell] = NOT_A_DIGIT
            for digit in range(digit_ids.size):
                if digit_ids[digit] == states[b, start + position]:
                    boards[b, cell] = digit + 1
            orders[b, cell] = steps[b] if definite[b, cell] else -steps[b]
            if states[b, start + position] == mask_id:
                boards[b, cell] = orders[b, cell] = 0
        # With the last of a response's pairs its board is whole again, and looked at once.
        if filled and (pair + 1 == len(pairs) or pairs[pair + 1, 0] != b):
            filled = False
            definite[b] = False
            if not astray[b]:
                find_singles(boards[b], units, units_of, used, masks, singles)
                for k in range(singles.size):
                    definite[b, k] = singles[k] != 0
