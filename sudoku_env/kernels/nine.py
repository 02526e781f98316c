"""Search on 9×9 boards: counting solutions, and whether a clue can go.

`work` is uint32 `(WORK,)`, work space for one thread: a stack of states (see `kernels.planes`); `state` is int64
`(STATE,)`, what the search notes (see `kernels.search_state`).
"""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, geometry
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.lanes import LANES, broadcast, count_ones, load, lowest_bit, store, zero_lanes
from sudoku_env.kernels.planes import (
    ONE,
    SOLVED,
    STATE_WORDS,
    STUCK,
    ZERO,
    Words,
    propagate,
    read_board,
    rows_with_two,
    two_and_more,
    word_of,
    write_board,
)
from sudoku_env.kernels.random import Int, Ints
from sudoku_env.kernels.search_state import (
    BEGUN,
    COUNT,
    LEFT,
    LUCKY,
    PHASE,
    PIECE,
    ROWS,
    START,
    STATE,
    UNFINISHED,
    WORK,
)

# What `count9_values` and `count9_text` return instead of a count.
NO_COUNT = -1
# Of that many cells with two candidates the best is guessed; more cost more time than they save.
_SCORED = 12
# After that many guesses without a dead end several are made at once, and from the start on a board that has more
# candidates than the hardest puzzles: it mostly has many solutions, and what takes its time is propagation.
_TRUSTED = 4
_LOOSE = 276
_MOST_AT_ONCE = 9
_U1, _U3, _U4, _U7, _U8 = (np.uint64(number) for number in (1, 3, 4, 7, 8))
_BAND = np.uint64(27)


def _peer_planes() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The peers of each cell in the first two bands, cell k at bit k, and in the last one: uint64 `(81,)` both."""
    upper, lower = np.zeros(81, dtype=np.uint64), np.zeros(81, dtype=np.uint64)
    for cell, peers in enumerate(geometry(9).peers):
        for peer in peers.tolist():
            if peer < 54:
                upper[cell] |= np.uint64(1 << peer)
            else:
                lower[cell] |= np.uint64(1 << (peer - 54))
    return upper, lower


_UPPER_PEERS, _LOWER_PEERS = _peer_planes()
# All bits of lane k in the eight words from 8·k on; none for k = 8.
_LANE_MASKS = np.concatenate([np.diag(np.full(LANES, 0xFFFFFFFF, dtype=np.uint32)), np.zeros((1, LANES), np.uint32)])
_LANE_MASKS = _LANE_MASKS.ravel()


@kernel(inline="always")
def _upper(plane0, plane1):  # type: ignore[no-untyped-def]
    """The planes of the first two bands as one number, uint64."""
    return np.uint64(plane0) | (np.uint64(plane1) << _BAND)


@kernel(inline="always")
def _impact(work, start, cell, digit, upper_twos, lower_twos):  # type: ignore[no-untyped-def]
    """How much a digit in a cell narrows down: its candidates among the peers, those in two-candidate cells 4-fold.

    The start, the cell and the digit are uint64; so numba need not ask whether an index counts from the end.
    """
    is_nine = digit >> _U3
    at, step = start + digit + (is_nine << _U4), _U8 - _U7 * is_nine
    upper = _upper(work[at], work[at + step]) & _UPPER_PEERS[cell]
    lower = np.uint64(work[at + step + step]) & _LOWER_PEERS[cell]
    twos = count_ones(upper & upper_twos) + count_ones(lower & lower_twos)
    return 1 + count_ones(upper) + count_ones(lower) + 3 * twos


@kernel(inline="always")
def _digits_in(work, start, band, bit):  # type: ignore[no-untyped-def]
    """The candidates of a cell as a bit mask, bit d for the digit d + 1; the start and the band are uint64."""
    low = np.uint32(~zero_lanes(load(work, start + _U8 * band) & bit) & np.uint32(0xFF))
    return np.uint32(low | (np.uint32(work[start + _U8 + _U8 + _U8 + band] & bit != ZERO) << np.uint32(8)))


@kernel
def _choose_cell(work: Words, start: Int, upper_twos: np.uint64, lower_twos: np.uint64) -> tuple[Int, Int]:
    """The cell with two candidates whose digits have the largest product of impacts, and the one with more impact.

    Returns:
        Cell and digit 0..8; cell −1 if no cell has two candidates.
    """
    at = np.uint64(start)
    upper, lower = upper_twos, lower_twos
    best = np.int64(-1)  # the product, then the cell in 8 bits and the digit in 4: a maximum needs no branch
    for _ in range(min(_SCORED, count_ones(upper_twos) + count_ones(lower_twos))):
        in_upper = upper != np.uint64(0)
        index = np.uint64(lowest_bit(upper if in_upper else lower))
        lower = lower if in_upper else lower & (lower - _U1)
        upper = upper & (upper - _U1) if in_upper else upper
        band = (np.uint64(1) if index >= _BAND else np.uint64(0)) if in_upper else np.uint64(2)
        cell = index if in_upper else index + _BAND + _BAND
        digits = _digits_in(work, at, band, np.uint32(_U1 << (cell - band * _BAND)))
        digit, other = np.uint64(lowest_bit(digits)), np.uint64(lowest_bit(np.uint32(digits & (digits - ONE))))
        impact = _impact(work, at, cell, digit, upper_twos, lower_twos)
        other_impact = _impact(work, at, cell, other, upper_twos, lower_twos)
        chosen = digit if impact >= other_impact else other
        best = max(best, (impact * other_impact << 12) | np.int64(cell << _U4 | chosen))
    if best < 0:
        return np.int64(-1), np.int64(0)
    return (best >> 4) & 0xFF, best & 0xF


@kernel
def _choose_place(work: Words, start: Int, upper_twos: np.uint64, lower_twos: np.uint64) -> tuple[Int, Int]:
    """The digit, of those with two places in a row, whose places have the largest product of impacts.

    Returns:
        The place with more impact and the digit 0..8; cell −1 if no digit has two places in a row.
    """
    at = np.uint64(start)
    best_cell, best_digit, best = np.int64(-1), np.int64(0), np.int64(0)
    for group in range(4):
        store(work, ROWS, rows_with_two(load(work, start + 8 * group)))
        for lane in range(8 if group < 3 else 3):
            band, digit = (group, lane) if group < 3 else (lane, 8)
            rows = work[ROWS + lane]
            while rows:
                shift = np.uint32(lowest_bit(rows) - 8)
                rows = np.uint32(rows & (rows - ONE))
                places = np.uint32((work[start + 8 * group + lane] >> shift) & np.uint32(0o777))
                cell = 27 * band + shift + lowest_bit(places)
                other_cell = 27 * band + shift + lowest_bit(np.uint32(places & (places - ONE)))
                impact = _impact(work, at, np.uint64(cell), np.uint64(digit), upper_twos, lower_twos)
                other = _impact(work, at, np.uint64(other_cell), np.uint64(digit), upper_twos, lower_twos)
                if impact * other > best:
                    best_digit, best = np.int64(digit), impact * other
                    best_cell = np.int64(cell if impact >= other else other_cell)
    return best_cell, best_digit


@kernel(inline="always")
def _assume(work, start, cell, digit):  # type: ignore[no-untyped-def]
    """Write the state with a digit in a cell behind the state at `start`, and take that candidate out of the latter."""
    band = cell // 27
    bit = np.uint32(ONE << np.uint32(cell % 27))
    place = load(_LANE_MASKS, 8 * digit) & bit
    in_band = load(_LANE_MASKS, 8 * band)
    nine = in_band & (bit if digit == 8 else ZERO)
    # Words are not changed one by one: loading lanes right after storing one of their words stalls the processor.
    for other in range(3):
        store(work, start + STATE_WORDS + 8 * other, load(work, start + 8 * other))
    plane = load(work, start + 8 * band)
    store(work, start + STATE_WORDS + 8 * band, (plane & np.uint32(~bit)) | place)
    store(work, start + 8 * band, plane & ~place)
    nines = load(work, start + 24)
    store(work, start + STATE_WORDS + 24, (nines & ~(in_band & bit)) | nine)
    store(work, start + 24, nines & ~nine)


@kernel
def _guess_several(work: Words, start: Int, most: Int, upper: np.uint64, lower: np.uint64) -> Int:
    """Assume the first candidates of up to `most` of the cells given, no two of which are peers.

    Returns:
        Number of states written behind the one at `start`.
    """
    guesses = 0
    while guesses < most and (upper | lower):
        cell = lowest_bit(upper) if upper else lowest_bit(lower) + 54
        band = cell // 27
        bit = np.uint32(ONE << np.uint32(cell % 27))
        _assume(work, start, cell, lowest_bit(_digits_in(work, np.uint64(start), np.uint64(band), bit)))
        start += STATE_WORDS
        guesses += 1
        # The cell goes, too; it is the lowest bit.
        lower = lower & ~_LOWER_PEERS[cell] & (lower if upper else lower - _U1)
        upper = upper & ~_UPPER_PEERS[cell] & (upper - _U1 if upper else upper)
    return guesses


@kernel
def _guess(work: Words, start: Int, most: Int) -> Int:
    """Assume a candidate, or up to `most` of them.

    Each guess writes the state with the candidate behind the one that it was made in, and takes it out of that one, so
    that the states from `start` on have no solution in common and miss none. A cell with two candidates comes first,
    then (where only one is assumed) a digit with two places in a row, then any cell.

    Returns:
        Number of states written behind the one at `start`.
    """
    nines = load(work, start + 24)
    two0, more0 = two_and_more(load(work, start), broadcast(nines, 0))
    two1, more1 = two_and_more(load(work, start + 8), broadcast(nines, 1))
    two2, more2 = two_and_more(load(work, start + 16), broadcast(nines, 2))
    if most > 1:
        if two0 | two1 | two2:
            return _guess_several(work, start, most, _upper(two0, two1), np.uint64(two2))
        return _guess_several(work, start, most, _upper(more0, more1), np.uint64(more2))
    upper_twos, lower_twos = _upper(two0, two1), np.uint64(two2)
    cell, digit = _choose_cell(work, start, upper_twos, lower_twos)
    if cell < 0:
        cell, digit = _choose_place(work, start, upper_twos, lower_twos)
    if cell < 0:
        return _guess_several(work, start, 1, _upper(more0, more1), np.uint64(more2))
    _assume(work, start, cell, digit)
    return np.int64(1)


@kernel
def _is_loose(work: Words) -> bool:
    """Whether the state at the start of `work` has more than `_LOOSE` candidates."""
    candidates = np.int64(0)
    for word in range(STATE_WORDS):
        candidates += count_ones(work[word])
    return bool(candidates > _LOOSE)


@kernel
def begin9(board: Board, work: Words, state: Ints) -> None:
    """Prepare `search_planes` for all solutions of a board, uint8 `(81,)` of 0..9."""
    read_board(board, work)
    state[COUNT] = state[START] = state[LUCKY] = state[BEGUN] = 0


@kernel
def begin_other9(board: Board, cell: Int, digit: Int, work: Words, state: Ints) -> None:
    """Prepare `search_planes` for the solutions of a board that have another digit than `digit` in its blank `cell`.

    A unique puzzle stays unique without the clue `digit` in `cell` exactly if it then has none; that takes one search
    which mostly ends at once, where counting to two takes a search that finds the known solution first.
    """
    begin9(board, work, state)
    work[word_of(cell // 27, digit - 1)] &= ~np.uint32(ONE << np.uint32(cell % 27))


@kernel
def search_planes(work: Words, state: Ints, limit: Int, solution: Board) -> Int:
    """Depth-first search from what `begin9` or `begin_other9` prepared, or from what the last call left.

    Args:
        work: uint32 `(WORK,)`, the stack of states.
        state: int64 `(7,)`, as in `Search`.
        limit: Stop after that many solutions.
        solution: uint8 `(81,)`, gets the first solution, if there is one.

    Returns:
        Number of solutions found, or UNFINISHED after as many states as were left to look at.
    """
    start, count, left = state[START], state[COUNT], state[LEFT]
    lucky, guessed = state[LUCKY], state[BEGUN] != 0  # guesses without a dead end; whether there was one at all
    while start >= 0:
        if left <= 0:
            state[START], state[COUNT], state[LEFT], state[LUCKY], state[BEGUN] = start, count, left, lucky, guessed
            return UNFINISHED
        left -= 1
        status = propagate(work, start)
        if status == STUCK:
            if not guessed:
                lucky, guessed = _TRUSTED if _is_loose(work) else 0, True
            most = 1 if lucky < _TRUSTED else min(_MOST_AT_ONCE, lucky - _TRUSTED + 2)
            start += STATE_WORDS * _guess(work, start, most)
            lucky += 1
            continue
        if status == SOLVED:
            count += 1
            if count == 1:
                write_board(work, start, solution)
            if count == limit:
                break
        else:
            lucky = lucky // 2 - 1
        # The state below lacks the candidate that was assumed here: it is what the guess leaves to look at.
        start -= STATE_WORDS
    state[LEFT] = left
    return count


@kernel(nogil=True)
def count9_batch(
    first: Int, boards: Board, limit: Int, solutions: Board, counts: Ints, work: Words, state: Ints
) -> Int:
    """Count the solutions of `(N, 81)` boards from `first` on; fills `solutions` `(N, 81)` and `counts` `(N,)`.

    Returns:
        N, or the board to go on with in another call, where what was left is used up.
    """
    for k in range(first, boards.shape[0]):
        if state[PHASE] == 0:
            begin9(boards[k], work, state)
        count = search_planes(work, state, limit, solutions[k])
        state[PHASE] = count == UNFINISHED
        if count == UNFINISHED:
            return k
        counts[k] = count
    return boards.shape[0]


@kernel
def count9(board: Board, limit: Int, solution: Board) -> Int:
    """The number of solutions of one board, up to `limit`, with work space of its own; NO_COUNT if it takes long."""
    work, state = np.empty(WORK, np.uint32), np.empty(STATE, np.int64)
    begin9(board, work, state)
    state[LEFT] = PIECE
    count = search_planes(work, state, limit, solution)
    return NO_COUNT if count == UNFINISHED else count


@kernel
def count9_values(board: Board, limit: Int, solution: Board) -> Int:
    """`count9`, and NO_COUNT if a cell of the board is not one of 0..9."""
    for cell in range(81):
        if board[cell] > 9:
            return NO_COUNT
    return count9(board, limit, solution)


@kernel
def count9_text(text: Board, limit: Int, solution: Board) -> Int:
    """`count9_values` for 81 ASCII codes, digits and dots; NO_COUNT if there is any other."""
    board = np.empty(81, np.uint8)
    for cell in range(81):
        code = text[cell]
        if code == 46:
            board[cell] = 0
        elif 48 <= code <= 57:
            board[cell] = code - 48
        else:
            return NO_COUNT
    return count9(board, limit, solution)
