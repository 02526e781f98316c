"""Candidates, singles and search for boards of any size.

Digit sets are int64 bit masks: bit d−1 stands for digit d. Shared arguments: `board` uint8 `(n²,)`; `units` int64
`(3n, n)` and `units_of` int64 `(n², 3)` from `board.geometry`; `used` int64 `(3n,)`, `masks` int64 `(n²,)` and
`definite` int64 `(n²,)` are work space.
"""

import numpy as np

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.random import Int, Ints, State, random_below


@kernel
def digit_of(bit: Int) -> Int:
    """Digit of a mask with one bit set."""
    digit = 1
    while bit > 1:
        bit >>= 1
        digit += 1
    return digit


@kernel
def mark_used(board: Board, units_of: Ints, used: Ints) -> bool:
    """Fill `used` with the digits that stand in each unit; False if one stands there twice."""
    used[:] = 0
    legal = True
    for cell in range(board.size):
        if board[cell]:
            bit = np.int64(1) << (np.int64(board[cell]) - 1)
            for k in range(3):
                unit = units_of[cell, k]
                legal = legal and not (used[unit] & bit)
                used[unit] |= bit
    return legal


@kernel
def find_candidates(board: Board, units_of: Ints, used: Ints, masks: Ints) -> bool:
    """Fill `masks` with the digits still possible in each blank cell, 0 in filled cells; False if a blank has none."""
    mark_used(board, units_of, used)
    full = (np.int64(1) << (used.size // 3)) - 1
    possible = True
    for cell in range(board.size):
        masks[cell] = 0
        if board[cell] == 0:
            masks[cell] = full & ~(used[units_of[cell, 0]] | used[units_of[cell, 1]] | used[units_of[cell, 2]])
            possible = possible and masks[cell] != 0
    return possible


@kernel
def find_singles(
    board: Board, units: Ints, units_of: Ints, used: Ints, masks: Ints, definite: Ints
) -> tuple[Int, bool]:
    """Fill `definite` with the naked and hidden singles of the board as one-bit masks, 0 elsewhere.

    On a contradictory board a cell may be a hidden single for two digits; the first unit's, then the lowest, counts.

    Returns:
        How many cells are definite, and False if a blank cell has no candidate or a digit has no place in a unit.
    """
    possible = find_candidates(board, units_of, used, masks)
    full = (np.int64(1) << units.shape[1]) - 1
    found = 0
    for cell in range(board.size):
        single = masks[cell] & (masks[cell] - 1) == 0
        definite[cell] = masks[cell] if single else 0
        found += int(definite[cell] != 0)
    for unit in range(units.shape[0]):
        once, twice = 0, 0
        for k in range(units.shape[1]):
            mask = masks[units[unit, k]]
            twice |= once & mask
            once |= mask
        possible = possible and (once | used[unit]) == full
        hidden = once & ~twice
        if hidden:
            for k in range(units.shape[1]):
                cell = units[unit, k]
                bits = masks[cell] & hidden
                if bits and definite[cell] == 0:
                    definite[cell] = bits & -bits
                    found += 1
    return found, possible


@kernel
def fill_singles(
    board: Board, units: Ints, units_of: Ints, used: Ints, masks: Ints, definite: Ints, trail: Ints, length: Int
) -> tuple[Int, bool]:
    """Fill singles, round by round, until none is left; `masks` then holds the candidates.

    The cells filled are appended to `trail`, int64 `(n²,)`, of which `length` entries are in use.

    Returns:
        The new length of the trail, and False if the board turned out contradictory.
    """
    while True:
        found, possible = find_singles(board, units, units_of, used, masks, definite)
        if not possible or found == 0:
            return length, possible
        for cell in range(board.size):
            bit = definite[cell]
            if bit:
                for k in range(3):
                    if used[units_of[cell, k]] & bit:
                        return length, False
                    used[units_of[cell, k]] |= bit
                board[cell] = digit_of(bit)
                trail[length] = cell
                length += 1


@kernel
def count_bits(mask: Int) -> Int:
    """Number of bits set."""
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@kernel
def pick_cell(masks: Ints, rng: State) -> Int:
    """The blank cell with the fewest candidates, or −1; the first of equals, a random one if there is an `rng`."""
    best: Int = -1
    fewest: Int = 64
    equals = 0
    for cell in range(masks.size):
        if masks[cell]:
            count = count_bits(masks[cell])
            if count < fewest:
                best, fewest, equals = cell, count, 1
            elif count == fewest and rng.size:
                equals += 1
                if random_below(rng, equals) == 0:
                    best = cell
    return best


@kernel
def pick_bit(mask: Int, rng: State) -> Int:
    """The lowest bit of the mask, a random one if there is an `rng`."""
    if rng.size:
        for _ in range(random_below(rng, count_bits(mask))):
            mask &= mask - 1
    return mask & -mask


@kernel
def search(
    board: Board, units: Ints, units_of: Ints, limit: Int, max_branches: Int, rng: State, solution: Board
) -> Int:
    """Depth-first search for solutions: singles first, then a guess in the cell with the fewest candidates.

    Args:
        board: uint8 `(n²,)`; left as it is.
        units: int64 `(3n, n)`, the cells of each unit.
        units_of: int64 `(n², 3)`, the units of each cell.
        limit: Stop after that many solutions.
        max_branches: Give up after that many guesses; 0 for never.
        rng: uint64 `(1,)` state for random cells and digits, `(0,)` for the fixed order.
        solution: uint8 `(n²,)`, gets the first solution, if there is one.

    Returns:
        Number of solutions found, or −1 if it gave up.
    """
    cells = board.size
    board = board.copy()
    used = np.empty(units.shape[0], np.int64)
    masks = np.empty(cells, np.int64)
    definite = np.empty(cells, np.int64)
    trail = np.empty(cells, np.int64)
    branch_cell = np.empty(cells, np.int64)
    branch_mask = np.empty(cells, np.int64)
    branch_length = np.empty(cells, np.int64)
    length: Int = 0
    depth, count, branches = 0, 0, 0
    if not mark_used(board, units_of, used):
        return count
    while True:
        length, possible = fill_singles(board, units, units_of, used, masks, definite, trail, length)
        if possible:
            cell = pick_cell(masks, rng)
            if cell >= 0:
                branch_cell[depth], branch_mask[depth], branch_length[depth] = cell, masks[cell], length
                depth += 1
            else:
                count += 1
                if count == 1:
                    solution[:] = board
                if count == limit:
                    return count
        while depth and branch_mask[depth - 1] == 0:
            depth -= 1
        if depth == 0:
            return count
        branches += 1
        if branches == max_branches:
            return -1
        length = undo(board, trail, length, branch_length[depth - 1])
        bit = pick_bit(branch_mask[depth - 1], rng)
        branch_mask[depth - 1] ^= bit
        board[branch_cell[depth - 1]] = digit_of(bit)
        trail[length] = branch_cell[depth - 1]
        length += 1


@kernel
def undo(board: Board, trail: Ints, length: Int, target: Int) -> Int:
    """Blank the cells on the trail beyond `target`; returns `target`."""
    for k in range(target, length):
        board[trail[k]] = 0
    return target


@kernel(nogil=True)
def search_batch(boards: Board, units: Ints, units_of: Ints, limit: Int, solutions: Board, counts: Ints) -> None:
    """`search` for each of `(N, n²)` boards; fills `solutions` `(N, n²)` and `counts` `(N,)`."""
    no_rng = np.empty(0, np.uint64)
    for k in range(boards.shape[0]):
        counts[k] = search(boards[k], units, units_of, limit, 0, no_rng, solutions[k])


@kernel(nogil=True)
def candidates_batch(boards: Board, units: Ints, units_of: Ints, out: Ints) -> None:
    """Candidate masks, int64 `(N, n²)`, of `(N, n²)` boards."""
    used = np.empty(units.shape[0], np.int64)
    for k in range(boards.shape[0]):
        find_candidates(boards[k], units_of, used, out[k])


@kernel(nogil=True)
def find_definite_batch(boards: Board, units: Ints, units_of: Ints, out: Board) -> None:
    """The digits of definite cells, uint8 `(N, n²)` with 0 for none, of `(N, n²)` boards."""
    used = np.empty(units.shape[0], np.int64)
    masks = np.empty(boards.shape[1], np.int64)
    definite = np.empty(boards.shape[1], np.int64)
    for k in range(boards.shape[0]):
        find_singles(boards[k], units, units_of, used, masks, definite)
        for cell in range(boards.shape[1]):
            out[k, cell] = digit_of(definite[cell]) if definite[cell] else 0
