"""Bit planes of a 9×9 board: reading, writing, and propagation on all nine digits at once.

A plane says where one digit can go in one band (three rows): 27 bits, bit 9·row + column. A state is 27 planes in 32
uint32 words: word 8·band + d for the digits d + 1 = 1..8, so that one `Lanes` value holds a band of eight digits, and
word 24 + band for the digit 9; the last five words are 0. Three consecutive cells of a row inside one box are a
mini-row, three of a column inside one box a mini-column.
"""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.lanes import (
    broadcast,
    constant,
    equal_bytes,
    first,
    first_of,
    high_halves,
    load,
    low_halves,
    store,
    swapped,
    zero_lanes,
)
from sudoku_env.kernels.random import Int

Words = NDArray[np.uint32]

STATE_WORDS = 32
DEAD, STUCK, SOLVED = 0, 1, 2

_word = np.uint32
ZERO, ONE, TWO, THREE, SIX = _word(0), _word(1), _word(2), _word(3), _word(6)
_EIGHT, _NINE, _EIGHTEEN = _word(8), _word(9), _word(18)
_NO_LANE = _word(0xFF)
PLANE = _word(0o777777777)
ROW = _word(0o777)
_ROW_LOW_BITS = _word(0o377377377)
_ROW_TOP_BIT = _word(0o400400400)
_ROW_FIRST_BIT = _word(0o001001001)
_FIRST_BOX = _word(0o007007007)
_FIRST_TWO_BOXES = _word(0o077077077)
_LAST_TWO_BOXES = _word(0o770770770)
_LAST_BOX = _word(0o700700700)
_FIRST_OF_BOX = _word(0o111111111)
_FIRST_TWO_OF_BOX = _word(0o333333333)
_LAST_TWO_OF_BOX = _word(0o666666666)
_LAST_OF_BOX = _word(0o444444444)


@kernel(inline="always")
def word_of(band, digit):  # type: ignore[no-untyped-def]
    """Index in a state of the plane of a band 0..2 and a digit 0..8 (one less than what is written)."""
    if digit < 8:
        return 8 * band + digit
    return 24 + band


@kernel(inline="always")
def rows_hit(x):  # type: ignore[no-untyped-def]
    """The top bit of each row that has a bit."""
    return (((x & _ROW_LOW_BITS) + _ROW_LOW_BITS) | x) & _ROW_TOP_BIT


@kernel(inline="always")
def whole_rows(tops):  # type: ignore[no-untyped-def]
    """Nine bits for each top bit."""
    return (tops << ONE) - (tops >> _EIGHT)


@kernel(inline="always")
def _beyond_first(x):  # type: ignore[no-untyped-def]
    """Each row without its first bit."""
    return x & (x - (rows_hit(x) >> _EIGHT))


@kernel(inline="always")
def mini_rows(x):  # type: ignore[no-untyped-def]
    """Which mini-rows have a bit, at the first bit of each."""
    return (x | (x >> ONE) | (x >> TWO)) & _FIRST_OF_BOX


@kernel(inline="always")
def whole_mini_rows(firsts):  # type: ignore[no-untyped-def]
    """Three bits for each first bit of a mini-row."""
    return (firsts << THREE) - firsts


@kernel(inline="always")
def columns(x):  # type: ignore[no-untyped-def]
    """Which columns have a bit in this band, as a row of nine bits."""
    return (x | (x >> _NINE) | (x >> _EIGHTEEN)) & ROW


@kernel(inline="always")
def columns_twice(x):  # type: ignore[no-untyped-def]
    """Which columns have two bits or more in this band, as a row of nine bits."""
    middle, last = x >> _NINE, x >> _EIGHTEEN
    return ((x & middle) | ((x | middle) & last)) & ROW


@kernel(inline="always")
def boxes_twice(once, twice):  # type: ignore[no-untyped-def]
    """Boxes with two bits or more, at the first bit of their mini-rows, from `columns` and `columns_twice`."""
    pairs = (once & (once >> ONE) & _FIRST_TWO_OF_BOX) | (once & (once >> TWO) & _FIRST_OF_BOX)
    return three_times(mini_rows(pairs | twice))


@kernel(inline="always")
def three_times(row):  # type: ignore[no-untyped-def]
    """A row of nine bits in all three rows."""
    return row | (row << _NINE) | (row << _EIGHTEEN)


@kernel(inline="always")
def _row_after(x):  # type: ignore[no-untyped-def]
    """Each row at the place of the one before it, the first at that of the last; bits from 27 on mean nothing."""
    return (x >> _NINE) | (x << _EIGHTEEN)


@kernel(inline="always")
def _row_before(x):  # type: ignore[no-untyped-def]
    return (x >> _EIGHTEEN) | (x << _NINE)


@kernel(inline="always")
def _box_after(x):  # type: ignore[no-untyped-def]
    return ((x >> THREE) & _FIRST_TWO_BOXES) | ((x << SIX) & _LAST_BOX)


@kernel(inline="always")
def _box_before(x):  # type: ignore[no-untyped-def]
    return ((x >> SIX) & _FIRST_BOX) | ((x << THREE) & _LAST_TWO_BOXES)


@kernel(inline="always")
def _next_in_box(x):  # type: ignore[no-untyped-def]
    return ((x >> ONE) & _FIRST_TWO_OF_BOX) | ((x << TWO) & _LAST_OF_BOX)


@kernel(inline="always")
def _last_in_box(x):  # type: ignore[no-untyped-def]
    return ((x >> TWO) & _FIRST_OF_BOX) | ((x << ONE) & _LAST_TWO_OF_BOX)


@kernel(inline="always")
def _lock_mini_rows(x):  # type: ignore[no-untyped-def]
    """Locked candidates of rows and boxes: the mini-rows that one of the six ways to place the digit uses.

    Mini-row (row, box) stays if the other two rows have places in the other two boxes, one each. Bits at the same
    offset inside their mini-rows form a pattern of their own, so three bands fit in one word.
    """
    after, before = _box_after(x), _box_before(x)
    return x & ((_row_after(after) & _row_before(before)) | (_row_after(before) & _row_before(after)))


@kernel(inline="always")
def _lock_mini_columns(x):  # type: ignore[no-untyped-def]
    """Locked candidates of columns and boxes, for the mini-columns of three bands: bit 9·band + column."""
    after, before = _next_in_box(x), _last_in_box(x)
    return x & ((_row_after(after) & _row_before(before)) | (_row_after(before) & _row_before(after)))


@kernel(inline="always")
def alone_in_row(x):  # type: ignore[no-untyped-def]
    """The bits that are alone in their row."""
    return x & ~whole_rows(rows_hit(_beyond_first(x)))


@kernel(inline="always")
def _alone_in_full_rows(x):  # type: ignore[no-untyped-def]
    """The bits that are alone in their row, where every row has one."""
    return x & ~whole_rows(rows_hit(x & (x - _ROW_FIRST_BIT)))


@kernel(inline="always")
def rows_with_two(x):  # type: ignore[no-untyped-def]
    """The top bit of each row that has exactly two bits."""
    second = _beyond_first(x)
    tops = rows_hit(second)
    return tops & ~rows_hit(_beyond_first(second))


@kernel(inline="always")
def any_lane(x):  # type: ignore[no-untyped-def]
    """The bits of all lanes together, in every lane."""
    x = x | swapped(x, 4)
    x = x | swapped(x, 2)
    return x | swapped(x, 1)


@kernel(inline="always")
def _at_least_of_four(one, two, nines):  # type: ignore[no-untyped-def]
    """Cells with at least one and at least two digits in four lanes, the first or the last, or among the nines.

    `one` and `two` are the cells with one or two in each lane, `nines` those with another digit.
    """
    other = swapped(one, 2)
    two, one = two | swapped(two, 2) | (one & other), one | other
    other = swapped(one, 1)
    two, one = two | swapped(two, 1) | (one & other), one | other
    return one | nines, two | (one & nines)


@kernel(inline="always")
def at_least(x, nines):  # type: ignore[no-untyped-def]
    """Cells with at least one and at least two digits of a band, in every lane; `nines` is the plane of the digit 9."""
    other = swapped(x, 4)
    return _at_least_of_four(x | other, x & other, nines)


@kernel(inline="always")
def _at_least_twice(x, y, nines_x, nines_y):  # type: ignore[no-untyped-def]
    """`at_least` for two bands at once: the first in the first four lanes, the second in the last four."""
    low, high = low_halves(x, y), high_halves(x, y)
    return _at_least_of_four(low | high, low & high, low_halves(nines_x, nines_y))


@kernel(inline="always")
def two_and_more(x, nines):  # type: ignore[no-untyped-def]
    """Cells with exactly two digits of a band and those with more, uint32 both; `nines` as for `at_least`."""
    other = swapped(x, 4)
    two, one = x & other, x | other
    other_one, other_two = swapped(one, 2), swapped(two, 2)
    three = (two & other_one) | (one & other_two)
    two, one = two | other_two | (one & other_one), one | other_one
    other_one, other_two = swapped(one, 1), swapped(two, 1)
    three = three | swapped(three, 1) | (two & other_one) | (one & other_two)
    two, one = two | other_two | (one & other_one), one | other_one
    three = three | (two & nines)
    two = two | (one & nines)
    return first(two & ~three), first(three)


@kernel
def propagate(state: Words, start: Int) -> Int:
    """Narrow the state at `state[start : start + 32]` down by singles and locked candidates, until nothing changes.

    Returns:
        DEAD if a cell has no candidate left, a digit has no place or stands twice in a row or box; SOLVED if every
        cell has one candidate; else STUCK.
    """
    x0, x1, x2, x9 = load(state, start), load(state, start + 8), load(state, start + 16), load(state, start + 24)
    shifts = constant(0, 9, 18, 31)
    while True:
        # Naked singles: the digit leaves the rest of its row; the locks below take it from box and column.
        one, two = _at_least_twice(x0, x1, broadcast(x9, 0), broadcast(x9, 1))
        one2, two2 = at_least(x2, broadcast(x9, 2))
        if first(one & swapped(one, 4) & one2) != PLANE:
            return DEAD
        open_cells = first(two | swapped(two, 4) | two2)
        two0, two1 = low_halves(two, two), high_halves(two, two)
        n0, n1, n2, n9 = x0 & ~two0, x1 & ~two1, x2 & ~two2, x9 & ~first_of(two0, two1, two2)
        y0, y1 = x0 & (~whole_rows(rows_hit(n0)) | n0), x1 & (~whole_rows(rows_hit(n1)) | n1)
        y2, y9 = x2 & (~whole_rows(rows_hit(n2)) | n2), x9 & (~whole_rows(rows_hit(n9)) | n9)

        free = _lock_mini_rows(mini_rows(y0) | (mini_rows(y1) << ONE) | (mini_rows(y2) << TWO))
        y0 = y0 & whole_mini_rows(free & _FIRST_OF_BOX)
        y1 = y1 & whole_mini_rows((free >> ONE) & _FIRST_OF_BOX)
        y2 = y2 & whole_mini_rows((free >> TWO) & _FIRST_OF_BOX)
        y9 = y9 & whole_mini_rows(_lock_mini_rows(mini_rows(y9)))

        free = _lock_mini_columns(columns(y0) | (columns(y1) << _NINE) | (columns(y2) << _EIGHTEEN))
        y0 = y0 & three_times(free & ROW)
        y1 = y1 & three_times((free >> _NINE) & ROW)
        y2 = y2 & three_times(free >> _EIGHTEEN)
        free = _lock_mini_columns(any_lane(columns(y9) << shifts))
        y9 = y9 & three_times((free >> shifts) & ROW)

        # Hidden singles: with the locks, a place alone in its box or column is alone in its row too.
        p0, p1 = _alone_in_full_rows(y0), _alone_in_full_rows(y1)
        p2, p9 = _alone_in_full_rows(y2), _alone_in_full_rows(y9)
        placed0 = any_lane(p0) | broadcast(p9, 0)
        placed1 = any_lane(p1) | broadcast(p9, 1)
        placed2 = any_lane(p2) | broadcast(p9, 2)
        y0, y1, y2 = (y0 & ~placed0) | p0, (y1 & ~placed1) | p1, (y2 & ~placed2) | p2
        y9 = (y9 & ~first_of(placed0, placed1, placed2)) | p9

        if (zero_lanes(y0) | zero_lanes(y1) | zero_lanes(y2) | (zero_lanes(y9) & _word(7))) != ZERO:
            return DEAD
        unchanged = zero_lanes((x0 ^ y0) | (x1 ^ y1) | (x2 ^ y2) | (x9 ^ y9)) == _NO_LANE
        x0, x1, x2, x9 = y0, y1, y2, y9
        if unchanged:
            break
    # Two naked singles of one digit in a row, which nothing above notices.
    twice = _beyond_first(n0) | _beyond_first(n1) | _beyond_first(n2) | _beyond_first(n9)
    if zero_lanes(twice) != _NO_LANE:
        return DEAD
    store(state, start, x0)
    store(state, start + 8, x1)
    store(state, start + 16, x2)
    store(state, start + 24, x9)
    return STUCK if open_cells else SOLVED


@kernel(inline="always")
def digits_at(board, band, byte):  # type: ignore[no-untyped-def]
    """Where a digit stands in a band, as 27 bits; never reads beyond the 81 cells."""
    if band == 2:
        return np.uint32(equal_bytes(board, 49, byte) >> np.uint32(5))
    return np.uint32(equal_bytes(board, 27 * band, byte) & PLANE)


@kernel
def read_board(board: Board, state: Words) -> None:
    """The state of a board, uint8 `(81,)` of 0..9, at the start of `state`: any digit is possible in a blank cell.

    `propagate` takes the clues' digits from their peers; a clash of clues makes it return DEAD.
    """
    for word in range(27, STATE_WORDS):
        state[word] = ZERO
    for band in range(3):
        blank = digits_at(board, band, np.uint8(0))
        for digit in range(9):
            state[word_of(band, digit)] = digits_at(board, band, np.uint8(digit + 1)) | blank


@kernel
def write_board(state: Words, start: Int, board: Board) -> None:
    """Write the digits of a state with at most one digit a cell to a board, uint8 `(81,)`; 0 where there is none."""
    for band in range(3):
        low, middle = start + 8 * band, start + 24 + band
        bit0 = np.uint32(state[low] | state[low + 2] | state[low + 4] | state[low + 6] | state[middle])
        bit1 = np.uint32(state[low + 1] | state[low + 2] | state[low + 5] | state[low + 6])
        bit2 = np.uint32(state[low + 3] | state[low + 4] | state[low + 5] | state[low + 6])
        bit3 = np.uint32(state[low + 7] | state[middle])
        for k in range(27):
            at = np.uint32(k)
            ones = np.uint32((bit0 >> at) & ONE) | np.uint32(((bit1 >> at) & ONE) << ONE)
            eights = np.uint32(((bit2 >> at) & ONE) << TWO) | np.uint32(((bit3 >> at) & ONE) << THREE)
            board[27 * band + k] = np.uint8(ones | eights)
