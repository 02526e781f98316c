"""Search on 4×4 and 6×6 boards with a row to a word: the guesses of `kernels.general`, many cells at once.

A row is an int64 of n fields of n bits, a field to a cell, the first cell in the lowest bits; bit d − 1 of a field says
that the cell can hold the digit d. Boxes of both sizes have two rows and half the columns, so two words are a band, and
their lower and upper halves its two boxes. A *top* is the highest bit of a field, which stands for the whole of it.

A state is a line of `stack`, int64 `(n² + 2, STATE_COLUMNS)`: n words, then the row and the untried digits (in their
field) of the cell that is guessed.
"""

import numpy as np

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.lanes import count_ones
from sudoku_env.kernels.random import Int, Ints
from sudoku_env.kernels.search_state import COUNT, DEPTH, LEFT, PHASE, STATE

ROW_WORD_SIZES = (4, 6)
FIRSTS_4, FIRSTS_6 = (np.int64(sum(1 << size * cell for cell in range(size))) for size in ROW_WORD_SIZES)
"""The lowest bit of each field."""

GUESS_ROW, GUESS_DIGITS, STATE_COLUMNS = 6, 7, 8
DEAD, STUCK, SOLVED = 0, 1, 2


def new_stack(size: int) -> tuple[Ints, Ints]:
    """The `stack` and the `state` that `search_rows_batch` works in; a thread needs its own."""
    return np.empty((size * size + 2, STATE_COLUMNS), np.int64), np.zeros(STATE, np.int64)


@kernel(inline="always")
def masks_of(size: Int) -> tuple[Int, Int, Int, Int, Int]:
    """The lowest bit of each field; the top of each; one field; one half of a row; the bits in a half."""
    firsts = FIRSTS_6 if size == 6 else FIRSTS_4
    bits = size * size // 2
    return firsts, firsts << (size - 1), (np.int64(1) << size) - 1, (np.int64(1) << bits) - 1, bits


@kernel(inline="always")
def filled(word: Int, tops: Int, lower: Int) -> Int:
    """The tops of the fields that have a bit; `lower` are all bits but the tops."""
    return (((word & lower) + lower) | word) & tops


@kernel(inline="always")
def fields(tops: Int, size: Int) -> Int:
    """All bits of the fields whose tops are given."""
    return (tops << 1) - (tops >> (size - 1))


@kernel
def fill_row_singles(words: Ints, singles: Ints, size: Int) -> Int:
    """Fill naked and hidden singles of a state, round by round, until none is left.

    Args:
        words: int64 `(STATE_COLUMNS,)`, the state.
        singles: int64 of the same shape, scratch: the cells of each row that have one digit.
        size: 4 or 6.

    Returns:
        DEAD on a contradiction, SOLVED if every cell has its digit, else STUCK.
    """
    firsts, tops, field, half, bits = masks_of(size)
    row = firsts * field
    lower = row ^ tops
    ends = field | field << bits  # the first field of each half
    while True:
        # Columns: digits placed there, possible in a cell or more, in two or more.
        placed, once, twice, blanks = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for r in range(size):
            word = words[r]
            if filled(word, tops, lower) != tops:
                return DEAD
            several = filled(word & (word - firsts), tops, lower)
            singles[r] = word & ~fields(several, size)
            blanks |= several
            placed |= singles[r]
            twice |= once & word
            once |= word
        if once != row:
            return DEAD
        hidden = once & ~twice
        changed, doubled = np.int64(0), placed & twice
        for r in range(0, size, 2):
            # Rows and boxes: the same, both rows of a band, or its two boxes, in the two halves of a word.
            a, b, fixed_a, fixed_b = words[r], words[r + 1], singles[r], singles[r + 1]
            lower_a, upper_a, lower_b, upper_b = a & half, a >> bits, b & half, b >> bits
            in_rows, in_boxes = (lower_a | upper_a) | (lower_b | upper_b) << bits, a | b
            twice_in_rows, twice_in_boxes = (lower_a & upper_a) | (lower_b & upper_b) << bits, a & b
            fixed_rows = ((fixed_a & half) | (fixed_a >> bits)) | ((fixed_b & half) | (fixed_b >> bits)) << bits
            fixed_boxes = fixed_a | fixed_b
            row_once, row_twice, row_placed = in_rows & ends, twice_in_rows & ends, fixed_rows & ends
            box_once, box_twice, box_placed = in_boxes & ends, twice_in_boxes & ends, fixed_boxes & ends
            for shift in range(size, bits, size):
                more = (in_rows >> shift) & ends
                row_twice |= (row_once & more) | ((twice_in_rows >> shift) & ends)
                row_once |= more
                row_placed |= (fixed_rows >> shift) & ends
                more = (in_boxes >> shift) & ends
                box_twice |= (box_once & more) | ((twice_in_boxes >> shift) & ends)
                box_once |= more
                box_placed |= (fixed_boxes >> shift) & ends
            if row_once & box_once != ends:
                return DEAD
            doubled |= row_placed & row_twice
            # What is placed leaves the other cells of its units; a hidden single leaves its cell nothing else.
            row_hidden, box_hidden = row_once & ~row_twice, hidden | (box_once & ~box_twice) * (firsts & half)
            gone = placed | box_placed * (firsts & half)
            hidden_a = a & (box_hidden | (row_hidden & field) * firsts)
            hidden_b = b & (box_hidden | (row_hidden >> bits) * firsts)
            found_a, found_b = filled(hidden_a, tops, lower), filled(hidden_b, tops, lower)
            doubled |= hidden_a & (hidden_a - (found_a >> (size - 1)))
            doubled |= hidden_b & (hidden_b - (found_b >> (size - 1)))
            next_a = ((a & ~(gone | (row_placed & field) * firsts)) | fixed_a) & (hidden_a | ~fields(found_a, size))
            next_b = ((b & ~(gone | (row_placed >> bits) * firsts)) | fixed_b) & (hidden_b | ~fields(found_b, size))
            changed |= (next_a ^ a) | (next_b ^ b)
            words[r], words[r + 1] = next_a, next_b
        if changed == 0:
            # A digit placed in a line and yet possible elsewhere in it stands there too (twice in a box, in two rows,
            # it leaves those rows of the other box none); a cell with two hidden singles has no digit.
            if doubled:
                return DEAD
            return STUCK if blanks else SOLVED


@kernel
def note_guess(stack: Ints, depth: Int, size: Int) -> None:
    """Note the first cell among those with the fewest digits, at least two, of a state that is stuck."""
    firsts, tops, field, _, _ = masks_of(size)
    lower = firsts * field ^ tops
    # Take the lowest digit from every cell until one has none, in the line below.
    for r in range(size):
        stack[depth + 1, r] = stack[depth, r] & (stack[depth, r] - firsts)
    while True:
        for r in range(size):
            word = stack[depth + 1, r]
            before = filled(word, tops, lower)
            word &= word - (before >> (size - 1))
            emptied = before & ~filled(word, tops, lower)
            if emptied:
                stack[depth, GUESS_ROW] = r
                stack[depth, GUESS_DIGITS] = stack[depth, r] & fields(emptied & -emptied, size)
                return
            stack[depth + 1, r] = word


@kernel
def take_guess(stack: Ints, depth: Int, size: Int) -> None:
    """Write, below a state, that in which its guessed cell has its lowest untried digit, and no peer of it has that."""
    firsts, tops, field, half, bits = masks_of(size)
    r, digits = stack[depth, GUESS_ROW], stack[depth, GUESS_DIGITS]
    guess = digits & -digits
    stack[depth, GUESS_DIGITS] = digits ^ guess
    digit = guess
    while digit > field:
        digit >>= size
    in_box = digit * (firsts & half)
    for k in range(size):
        stack[depth + 1, k] = stack[depth, k] & ~guess
    stack[depth + 1, r ^ 1] &= ~(in_box if guess <= half else in_box << bits)
    cell = fields(filled(digits, tops, firsts * field ^ tops), size)
    stack[depth + 1, r] = (stack[depth, r] & ~(cell | digit * firsts)) | guess


@kernel
def read_rows(board: Board, size: Int, words: Ints) -> bool:
    """Write a board, uint8 `(n²,)`, as a state; False if a digit stands twice in a unit."""
    _, _, field, _, bits = masks_of(size)
    ends = field | field << bits
    columns, boxes, clash = np.int64(0), np.int64(0), np.int64(0)
    for r in range(size):
        clues, blanks, in_row = np.int64(0), np.int64(0), np.int64(0)
        for c in range(size):
            digit = np.int64(board[size * r + c])
            bit = (np.int64(1) << digit) >> 1
            clash |= in_row & bit
            in_row |= bit
            clues |= bit << size * c
            blanks |= np.int64(digit == 0) << size * c
        clash |= columns & clues
        columns |= clues
        if r % 2 == 0:
            boxes = np.int64(0)
        for shift in range(0, bits, size):
            part = (clues >> shift) & ends
            clash |= boxes & part
            boxes |= part
        words[r] = clues | blanks * field
    return clash == 0


@kernel
def write_rows(words: Ints, size: Int, solution: Board) -> None:
    """Write a solved state as a board, uint8 `(n²,)`."""
    field = (np.int64(1) << size) - 1
    for r in range(size):
        for c in range(size):
            bit = (words[r] >> size * c) & field
            solution[size * r + c] = count_ones(np.uint32(bit - 1)) + np.uint32(1)


@kernel
def search_rows(stack: Ints, state: Ints, size: Int, limit: Int, looked: bool, solution: Board) -> bool:
    """Depth-first search as `kernels.general.run_search` does it, with the same solutions in the same order.

    Args:
        stack: int64 `(n² + 2, STATE_COLUMNS)`, the board as the first state, or what the last call left.
        state: int64 `(STATE,)`; LEFT guesses, the DEPTH in the stack and the COUNT of solutions so far.
        size: 4 or 6.
        limit: Stop after that many solutions.
        looked: Whether a call before has looked at the state at that depth.
        solution: uint8 `(n²,)`, gets the first solution, if there is one.

    Returns:
        False after as many guesses as were left.
    """
    depth, left = state[DEPTH], state[LEFT]
    while True:
        if not looked:
            status = fill_row_singles(stack[depth], stack[depth + 1], size)
            if status == STUCK:
                note_guess(stack, depth, size)
                depth += 1
            elif status == SOLVED:
                state[COUNT] += 1
                if state[COUNT] == 1:
                    write_rows(stack[depth], size, solution)
                if state[COUNT] == limit:
                    break
        looked = False
        while depth and stack[depth - 1, GUESS_DIGITS] == 0:
            depth -= 1
        if depth == 0:
            break
        if left <= 0:
            state[DEPTH], state[LEFT] = depth, left
            return False
        left -= 1
        take_guess(stack, depth - 1, size)
    state[LEFT] = left
    return True


@kernel(nogil=True)
def search_rows_batch(
    first: Int, boards: Board, size: Int, limit: Int, solutions: Board, counts: Ints, stack: Ints, state: Ints
) -> Int:
    """Count the solutions of `(N, n²)` boards from `first` on; fills `solutions` `(N, n²)` and `counts` `(N,)`.

    Returns:
        N, or the board to go on with in another call, where what was left is used up.
    """
    for k in range(first, boards.shape[0]):
        looked = state[PHASE] != 0
        if not looked:
            if state[LEFT] <= 0:
                return k
            state[LEFT] -= 1
            state[DEPTH] = state[COUNT] = 0
            if not read_rows(boards[k], size, stack[0]):
                counts[k] = 0
                continue
        if not search_rows(stack, state, size, limit, looked, solutions[k]):
            state[PHASE] = 1
            return k
        state[PHASE] = 0
        counts[k] = state[COUNT]
    return boards.shape[0]
