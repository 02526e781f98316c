"""Search on 9×9 boards: counting solutions, and whether a clue can go.

`work` is uint32 `(WORK,)`, work space for one thread: a stack of states (see `kernels.planes`).
"""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, geometry
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.lanes import count_ones, load, lowest_bit, store, zero_lanes
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
    word_of,
    write_board,
)
from sudoku_env.kernels.random import Int

# What `count9_values` and `count9_text` return instead of a count.
BAD_BOARD = -1
# Of that many cells with two candidates the best is guessed; more cost more time than they save.
_SCORED = 8
# A state on the stack for each cell that may have been guessed, and one more; then eight words for the rows of a digit.
_ROWS = 82 * STATE_WORDS
WORK = _ROWS + 8


def _peer_planes() -> NDArray[np.uint32]:
    planes = np.zeros((81, 3), dtype=np.uint32)
    for cell, peers in enumerate(geometry(9).peers):
        for peer in peers:
            planes[cell, peer // 27] |= np.uint32(1 << (peer % 27))
    return planes


_PEERS = _peer_planes()


@kernel(inline="always")
def _impact(work, start, cell, digit, two0, two1, two2):  # type: ignore[no-untyped-def]
    """How much a digit in a cell narrows down: its candidates among the peers, those in two-candidate cells 4-fold."""
    if digit < 8:
        at, step = start + digit, 8
    else:
        at, step = start + 24, 1
    places0 = np.uint32(work[at] & _PEERS[cell, 0])
    places1 = np.uint32(work[at + step] & _PEERS[cell, 1])
    places2 = np.uint32(work[at + 2 * step] & _PEERS[cell, 2])
    places = count_ones(places0) + count_ones(places1) + count_ones(places2)
    twos = count_ones(np.uint32(places0 & two0)) + count_ones(np.uint32(places1 & two1))
    return 1 + places + 3 * (twos + count_ones(np.uint32(places2 & two2)))


@kernel(inline="always")
def _cells_with_two(work, start, band):  # type: ignore[no-untyped-def]
    """The cells of a band that have exactly two candidates, and those that have more."""
    one, two, more = work[start + 24 + band], ZERO, ZERO
    for digit in range(8):
        plane = work[start + 8 * band + digit]
        more = np.uint32(more | (two & plane))
        two = np.uint32(two | (one & plane))
        one = np.uint32(one | plane)
    return np.uint32(two & ~more), more


@kernel(inline="always")
def _digits_in(work, start, band, bit):  # type: ignore[no-untyped-def]
    """The candidates of a cell as a bit mask, bit d for the digit d + 1."""
    low = np.uint32(~zero_lanes(load(work, start + 8 * band) & bit) & np.uint32(0xFF))
    return np.uint32(low | (np.uint32(work[start + 24 + band] & bit != ZERO) << np.uint32(8)))


@kernel
def _choose_cell(work: Words, start: Int, two0: np.uint32, two1: np.uint32, two2: np.uint32) -> tuple[Int, Int]:
    """The cell with two candidates whose digits have the largest product of impacts, and the one with more impact.

    Returns:
        Cell and digit 0..8; cell −1 if no cell has two candidates.
    """
    best_cell, best_digit, best = np.int64(-1), np.int64(0), np.int64(0)
    scored = 0
    for band in range(3):
        cells = two0 if band == 0 else two1 if band == 1 else two2
        while cells and scored < _SCORED:
            scored += 1
            bit = np.uint32(cells & (~cells + ONE))
            cells = np.uint32(cells ^ bit)
            cell = 27 * band + lowest_bit(bit)
            digits = _digits_in(work, start, band, bit)
            digit, other = lowest_bit(digits), lowest_bit(np.uint32(digits & (digits - ONE)))
            impact = _impact(work, start, cell, digit, two0, two1, two2)
            other_impact = _impact(work, start, cell, other, two0, two1, two2)
            if impact * other_impact > best:
                best_cell, best = cell, impact * other_impact
                best_digit = digit if impact >= other_impact else other
    return best_cell, best_digit


@kernel
def _choose_place(work: Words, start: Int, two0: np.uint32, two1: np.uint32, two2: np.uint32) -> tuple[Int, Int]:
    """The digit, of those with two places in a row, whose places have the largest product of impacts.

    Returns:
        The place with more impact and the digit 0..8; cell −1 if no digit has two places in a row.
    """
    best_cell, best_digit, best = np.int64(-1), np.int64(0), np.int64(0)
    for group in range(4):
        store(work, _ROWS, rows_with_two(load(work, start + 8 * group)))
        for lane in range(8 if group < 3 else 3):
            band, digit = (group, lane) if group < 3 else (lane, 8)
            rows = work[_ROWS + lane]
            while rows:
                shift = np.uint32(lowest_bit(rows) - 8)
                rows = np.uint32(rows & (rows - ONE))
                places = np.uint32((work[start + 8 * group + lane] >> shift) & np.uint32(0o777))
                cell = 27 * band + shift + lowest_bit(places)
                other_cell = 27 * band + shift + lowest_bit(np.uint32(places & (places - ONE)))
                impact = _impact(work, start, cell, digit, two0, two1, two2)
                other = _impact(work, start, other_cell, digit, two0, two1, two2)
                if impact * other > best:
                    best_digit, best = np.int64(digit), impact * other
                    best_cell = np.int64(cell if impact >= other else other_cell)
    return best_cell, best_digit


@kernel
def _guess(work: Words, start: Int) -> None:
    """Choose a candidate; write the state with it behind the state at `start`, and take it out of the one there.

    A cell with two candidates comes first, then a digit with two places in a row, then any cell.
    """
    two0, more0 = _cells_with_two(work, start, 0)
    two1, more1 = _cells_with_two(work, start, 1)
    two2, more2 = _cells_with_two(work, start, 2)
    cell, digit = _choose_cell(work, start, two0, two1, two2)
    if cell < 0:
        cell, digit = _choose_place(work, start, two0, two1, two2)
    if cell < 0:
        first = 0 if more0 else 1 if more1 else 2
        more = more0 if more0 else more1 if more1 else more2
        cell = 27 * first + lowest_bit(more)
        digit = lowest_bit(_digits_in(work, start, first, np.uint32(more & (~more + ONE))))
    band = cell // 27
    bit = np.uint32(ONE << np.uint32(cell % 27))
    for word in range(0, STATE_WORDS, 8):
        store(work, start + STATE_WORDS + word, load(work, start + word))
    others = np.uint32(~bit)
    store(work, start + STATE_WORDS + 8 * band, load(work, start + 8 * band) & others)
    work[start + STATE_WORDS + 24 + band] &= others
    work[start + STATE_WORDS + word_of(band, digit)] |= bit
    work[start + word_of(band, digit)] &= others


@kernel
def search_planes(work: Words, limit: Int, solution: Board) -> Int:
    """Depth-first search from the state at the start of `work`.

    Args:
        work: uint32 `(WORK,)`, the stack of states.
        limit: Stop after that many solutions.
        solution: uint8 `(81,)`, gets the first solution, if there is one.

    Returns:
        Number of solutions found.
    """
    count = 0
    start = 0
    while start >= 0:
        status = propagate(work, start)
        if status == STUCK:
            _guess(work, start)
            start += STATE_WORDS
            continue
        if status == SOLVED:
            count += 1
            if count == 1:
                write_board(work, start, solution)
            if count == limit:
                break
        start -= STATE_WORDS
    return count


@kernel
def count9(board: Board, limit: Int, solution: Board, work: Words) -> Int:
    """Number of solutions of a board, uint8 `(81,)` of 0..9, up to `limit`; the first one goes to `solution`."""
    read_board(board, work)
    return search_planes(work, limit, solution)


@kernel
def other_solution9(board: Board, cell: Int, digit: Int, scratch: Board, work: Words) -> bool:
    """Whether a board has a solution with another digit than `digit`, 1..9, in the blank `cell`.

    A unique puzzle stays unique without the clue `digit` in `cell` exactly if it then has none; that takes one search
    which mostly ends at once, where counting to two takes a search that finds the known solution first.

    Args:
        board: uint8 `(81,)` of 0..9, without the clue.
        cell: The clue's cell.
        digit: The clue's digit.
        scratch: uint8 `(81,)`, gets the other solution.
        work: uint32 `(WORK,)`, work space.
    """
    read_board(board, work)
    work[word_of(cell // 27, digit - 1)] &= ~np.uint32(ONE << np.uint32(cell % 27))
    return search_planes(work, np.int64(1), scratch) != 0


@kernel(nogil=True)
def count9_batch(boards: Board, limit: Int, solutions: Board, counts: NDArray[np.int64]) -> None:
    """`count9` for each of `(N, 81)` boards; fills `solutions` `(N, 81)` and `counts` `(N,)`."""
    work = np.empty(WORK, np.uint32)
    for k in range(boards.shape[0]):
        counts[k] = count9(boards[k], limit, solutions[k], work)


@kernel
def count9_values(board: Board, limit: Int, solution: Board) -> Int:
    """`count9` with work space of its own; BAD_BOARD if a cell of the board is not one of 0..9."""
    for cell in range(81):
        if board[cell] > 9:
            return BAD_BOARD
    return count9(board, limit, solution, np.empty(WORK, np.uint32))


@kernel
def count9_text(text: Board, limit: Int, solution: Board) -> Int:
    """`count9_values` for 81 ASCII codes, digits and dots; BAD_BOARD if there is any other."""
    board = np.empty(81, np.uint8)
    for cell in range(81):
        code = text[cell]
        if code == 46:
            board[cell] = 0
        elif 48 <= code <= 57:
            board[cell] = code - 48
        else:
            return BAD_BOARD
    return count9(board, limit, solution, np.empty(WORK, np.uint32))
