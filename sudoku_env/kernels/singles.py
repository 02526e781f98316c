"""Naked and hidden singles of 9×9 boards on bit planes (see `kernels.planes`), from the digits on the board alone."""

import numpy as np

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.general import digit_of, find_singles
from sudoku_env.kernels.lanes import broadcast, first, first_of, load, store
from sudoku_env.kernels.planes import (
    STATE_WORDS,
    ZERO,
    Words,
    alone_in_row,
    any_lane,
    at_least,
    boxes_twice,
    columns,
    columns_twice,
    digits_at,
    mini_rows,
    rows_hit,
    three_times,
    whole_mini_rows,
    whole_rows,
    word_of,
    write_board,
)
from sudoku_env.kernels.random import Ints


@kernel(inline="always")
def _seen(x, columns_hit):  # type: ignore[no-untyped-def]
    """The cells of a band that a digit in `x` sees; `columns_hit` are the columns where it stands in any band."""
    boxes = mini_rows(three_times(columns(x)))
    return whole_rows(rows_hit(x)) | three_times(columns_hit) | whole_mini_rows(boxes)


@kernel(inline="always")
def _hidden(x, columns_once):  # type: ignore[no-untyped-def]
    """The candidates that are alone in their row, column or box."""
    boxes = boxes_twice(columns(x), columns_twice(x))
    return alone_in_row(x) | (x & (three_times(columns_once) | ~whole_mini_rows(boxes)))


@kernel
def definite9(board: Board, definite: Board, state: Words) -> bool:
    """Write the digit of each definite cell, a naked or hidden single, and 0 in the others.

    Args:
        board: uint8 `(81,)` of 0..9.
        definite: uint8 `(81,)`, written to.
        state: uint32 `(32,)`, work space.

    Returns:
        False if one cell is a single for two digits, on contradictory boards only; `definite` is then of no use.
    """
    for word in range(27, STATE_WORDS):
        state[word] = ZERO
    for band in range(3):
        for digit in range(9):
            state[word_of(band, digit)] = digits_at(board, band, np.uint8(digit + 1))
    x0, x1, x2, x9 = load(state, 0), load(state, 8), load(state, 16), load(state, 24)
    hit = columns(x0) | columns(x1) | columns(x2)
    seen0, seen1, seen2 = _seen(x0, hit), _seen(x1, hit), _seen(x2, hit)
    seen9 = _seen(x9, any_lane(columns(x9)))
    blank0, blank1 = digits_at(board, 0, np.uint8(0)), digits_at(board, 1, np.uint8(0))
    blank2 = digits_at(board, 2, np.uint8(0))
    state[24], state[25], state[26] = blank0, blank1, blank2
    x0, x1, x2, x9 = ~seen0 & blank0, ~seen1 & blank1, ~seen2 & blank2, ~seen9 & load(state, 24)

    _, two0 = at_least(x0, broadcast(x9, 0))
    _, two1 = at_least(x1, broadcast(x9, 1))
    _, two2 = at_least(x2, broadcast(x9, 2))
    once0, once1, once2 = columns(x0), columns(x1), columns(x2)
    twice = columns_twice(x0) | columns_twice(x1) | columns_twice(x2)
    twice = twice | (once0 & once1) | ((once0 | once1) & once2)
    once = (once0 | once1 | once2) & ~twice
    once9 = columns(x9)
    nine0, nine1, nine2 = broadcast(once9, 0), broadcast(once9, 1), broadcast(once9, 2)
    twice9 = any_lane(columns_twice(x9)) | (nine0 & nine1) | ((nine0 | nine1) & nine2)
    once9 = (nine0 | nine1 | nine2) & ~twice9
    f0, f1, f2 = (x0 & ~two0) | _hidden(x0, once), (x1 & ~two1) | _hidden(x1, once), (x2 & ~two2) | _hidden(x2, once)
    f9 = (x9 & ~first_of(two0, two1, two2)) | _hidden(x9, once9)
    store(state, 0, f0)
    store(state, 8, f1)
    store(state, 16, f2)
    store(state, 24, f9)
    _, clash0 = at_least(f0, broadcast(f9, 0))
    _, clash1 = at_least(f1, broadcast(f9, 1))
    _, clash2 = at_least(f2, broadcast(f9, 2))
    write_board(state, 0, definite)
    return first(clash0 | clash1 | clash2) == ZERO


@kernel(nogil=True)
def definite9_batch(boards: Board, units: Ints, units_of: Ints, definite: Board) -> None:
    """The digits of definite cells, uint8 `(N, 81)` with 0 for none, of `(N, 81)` boards, as by `find_singles`."""
    state = np.empty(STATE_WORDS, np.uint32)
    used = np.empty(27, np.int64)
    masks = np.empty(81, np.int64)
    bits = np.empty(81, np.int64)
    for k in range(boards.shape[0]):
        if not definite9(boards[k], definite[k], state):
            find_singles(boards[k], units, units_of, used, masks, bits)
            for cell in range(81):
                definite[k, cell] = digit_of(bits[cell]) if bits[cell] else 0
