"""Candidates, singles and search for boards of any size.

Digit sets are int64 bit masks: bit d−1 stands for digit d. Shared arguments: `board` uint8 `(n²,)`; `units` int64
`(3n, n)` and `units_of` int64 `(n², 3)` from `board.geometry`; `used` int64 `(3n,)`, `masks` int64 `(n²,)` and
`definite` int64 `(n²,)` are work space.
"""

import numpy as np

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.random import Int, Ints, State, random_below
from sudoku_env.kernels.search_state import (
    BEGUN,
    BRANCH_CELLS,
    BRANCH_LENGTHS,
    BRANCH_MASKS,
    COUNT,
    DEFINITE,
    DEPTH,
    LEFT,
    LENGTH,
    MASKS,
    PHASE,
    TRAIL,
    UNFINISHED,
    Search,
)


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
def begin_search(board: Board, units_of: Ints, search: Search) -> None:
    """Prepare `run_search` for all solutions of a board, uint8 `(n²,)`, which is left as it is."""
    state, trial = search.state, search.trial
    for cell in range(board.size):
        trial[cell] = board[cell]
    # A board with a clash counts as looked at, without a guess left.
    state[BEGUN] = not mark_used(trial, units_of, search.used)
    state[COUNT] = state[LENGTH] = state[DEPTH] = 0
    state[LEFT] -= 1


@kernel
def begin_other(board: Board, cell: Int, digit: Int, units_of: Ints, search: Search) -> None:
    """Prepare `run_search` for the solutions of a board that have another digit than `digit` in its blank `cell`."""
    begin_search(board, units_of, search)
    state, stacks = search.state, search.stacks
    find_candidates(board, units_of, search.used, stacks[MASKS])
    # That is a guess in the cell of which the digit has been tried.
    stacks[BRANCH_CELLS, 0] = cell
    stacks[BRANCH_MASKS, 0] = stacks[MASKS, cell] & ~(np.int64(1) << (digit - 1))
    stacks[BRANCH_LENGTHS, 0] = 0
    state[DEPTH] = not state[BEGUN]
    state[BEGUN] = 1


@kernel
def run_search(units: Ints, units_of: Ints, limit: Int, rng: State, solution: Board, search: Search) -> Int:
    """Depth-first search for solutions: singles first, then a guess in the cell with the fewest candidates.

    Args:
        units: int64 `(3n, n)`, the cells of each unit.
        units_of: int64 `(n², 3)`, the units of each cell.
        limit: Stop after that many solutions.
        rng: uint64 `(1,)` state for random cells and digits, `(0,)` for the fixed order.
        solution: uint8 `(n²,)`, gets the first solution, if there is one.
        search: What `begin_search` or `begin_other` prepared, or what the last call left.

    Returns:
        Number of solutions found, or UNFINISHED after as many guesses as were left.
    """
    state, stacks, used, board = search.state, search.stacks, search.used, search.trial
    masks, definite, trail = stacks[MASKS], stacks[DEFINITE], stacks[TRAIL]
    branch_cells, branch_masks, branch_lengths = stacks[BRANCH_CELLS], stacks[BRANCH_MASKS], stacks[BRANCH_LENGTHS]
    length, depth, left, count = state[LENGTH], state[DEPTH], state[LEFT], state[COUNT]
    looked = state[BEGUN] != 0
    while True:
        # Look: what follows without a guess; what is then left open needs one, and nothing left is a solution.
        if not looked:
            length, possible = fill_singles(board, units, units_of, used, masks, definite, trail, length)
            if possible:
                cell = pick_cell(masks, rng)
                if cell >= 0:
                    branch_cells[depth], branch_masks[depth], branch_lengths[depth] = cell, masks[cell], length
                    depth += 1
                else:
                    count += 1
                    if count == 1:
                        for k in range(board.size):
                            solution[k] = board[k]
                    if count == limit:
                        break
        # Go back to the last guess that has a digit untried, and take that.
        looked = False
        while depth and branch_masks[depth - 1] == 0:
            depth -= 1
        if depth == 0:
            break
        if left <= 0:
            state[LENGTH], state[DEPTH], state[LEFT], state[COUNT], state[BEGUN] = length, depth, left, count, 1
            return UNFINISHED
        left -= 1
        length = undo(board, trail, length, branch_lengths[depth - 1])
        bit = pick_bit(branch_masks[depth - 1], rng)
        branch_masks[depth - 1] ^= bit
        board[branch_cells[depth - 1]] = digit_of(bit)
        trail[length] = branch_cells[depth - 1]
        length += 1
    state[LEFT] = left
    return count


@kernel
def undo(board: Board, trail: Ints, length: Int, target: Int) -> Int:
    """Blank the cells on the trail beyond `target`; returns `target`."""
    for k in range(target, length):
        board[trail[k]] = 0
    return target


@kernel(nogil=True)
def search_batch(
    first: Int, boards: Board, units: Ints, units_of: Ints, limit: Int, solutions: Board, counts: Ints, search: Search
) -> Int:
    """Count the solutions of `(N, n²)` boards from `first` on; fills `solutions` `(N, n²)` and `counts` `(N,)`.

    Returns:
        N, or the board to go on with in another call, where what was left is used up.
    """
    state = search.state
    for k in range(first, boards.shape[0]):
        if state[PHASE] == 0:
            if state[LEFT] <= 0:
                return k
            begin_search(boards[k], units_of, search)
        count = run_search(units, units_of, limit, search.no_rng, solutions[k], search)
        state[PHASE] = count == UNFINISHED
        if count == UNFINISHED:
            return k
        counts[k] = count
    return boards.shape[0]


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
