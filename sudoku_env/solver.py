"""Sudoku solver: one solution, the number of solutions up to a limit, both for many boards, and which have any.

9×9 boards take a search on bit planes (`kernels.nine`), 4×4 and 6×6 one on rows (`kernels.row_words`), 16×16 a general
one (`kernels.general`). All return to Python now and then, so that Ctrl-C ends them, and go on.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from threading import Event

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, BoardLike, as_board, as_boards, geometry, size_of
from sudoku_env.errors import BoardError
from sudoku_env.kernels.general import candidates_batch, search_batch
from sudoku_env.kernels.nine import NO_COUNT, count9_batch, count9_text, count9_values
from sudoku_env.kernels.random import Int
from sudoku_env.kernels.row_words import ROW_WORD_SIZES, new_stack, search_rows_batch
from sudoku_env.kernels.search_state import in_pieces, new_search

_SMALLEST_SHARE = 512
_SHARES_PER_THREAD = 8
_CELLS_OF_NINE = 81


def solve(board: BoardLike, *, size: int | None = None) -> Board | None:
    """One solution of a board, or None if it has none (a clash among its digits included).

    The same board always gives the same solution. Use `count_solutions` to see whether it is the only one. A uint8
    array or a packed string of digits and dots is the fastest for 9×9; for many boards `solve_batch` is faster.

    Args:
        board: Anything `as_board` takes.
        size: The size it must have, or None to take it from the number of cells.

    Returns:
        uint8 `(n²,)`, or None.

    Raises:
        BoardError: The board has a wrong shape or a value out of range.
    """
    solution, count = _solve_one(board, 1, size)
    return solution if count else None


def count_solutions(board: BoardLike, limit: int = 2) -> int:
    """Number of solutions, counted up to `limit`; 0 for a board with a clash.

    Raises:
        BoardError: The board has a wrong shape or a value out of range, or the limit is below 1.
    """
    return int(_solve_one(board, _check_limit(limit), None)[1])


def solutions(board: BoardLike, limit: int | None = None) -> Iterator[Board]:
    """The solutions of a board, one after the other, all different; the next is looked for when it is asked for.

    In an order of its own, always the same. Where only their number matters, `count_solutions` is much faster.

    Args:
        board: Anything `as_board` takes.
        limit: Most solutions to give; None gives all, of which an empty 9×9 board has 6.7 × 10²¹.

    Yields:
        uint8 `(n²,)`.

    Raises:
        BoardError: The board has a wrong shape or a value out of range, or the limit is below 1.
    """
    return islice(_each_solution(as_board(board)), limit if limit is None else _check_limit(limit))


def _each_solution(board: Board) -> Iterator[Board]:
    """Depth-first: a board with several solutions is parted by the digits of the blank with the fewest candidates."""
    table = geometry(size_of(board.size))
    open_boards = [(board, *(part[0] for part in _solve_rows(board[None], 2, 1)))]
    while open_boards:
        parent, solution, count = open_boards.pop()
        if count == 1:
            yield solution
        if count > 1:
            masks = np.empty((1, table.cells), dtype=np.int64)
            candidates_batch(parent[None], table.units, table.units_of, masks)
            digits = masks[0, :, None] >> np.arange(table.size) & 1  # (n², n)
            cell = np.argmin(np.where(parent > 0, table.size + 1, digits.sum(1)))
            children = np.repeat(parent[None], digits[cell].sum(), axis=0)
            children[:, cell] = np.flatnonzero(digits[cell]) + 1
            open_boards += reversed([*zip(children, *_solve_rows(children, 2, 1), strict=True)])


def solve_batch(boards: NDArray[np.integer], *, limit: int = 1, threads: int = 1) -> tuple[Board, NDArray[np.int64]]:
    """Solve many boards of one size.

    Args:
        boards: `(N, n²)` integers, 0 for a blank.
        limit: Count solutions of each board up to this number; 2 tells whether the solution is unique.
        threads: Threads to share the boards among; the result does not depend on it.

    Returns:
        Solutions uint8 `(N, n²)`, zeros where there is none, and counts int64 `(N,)`, at most `limit` each. Of several
        solutions the first one found is given, the same one as by `solve`.

    Raises:
        BoardError: Wrong shape or a value out of range, or `limit` or `threads` is below 1. A clash of digits is no
            error; such a board has no solution.
    """
    return _solve_rows(_check_rows(boards, threads, "solve_batch"), _check_limit(limit), threads)


def completable(boards: NDArray[np.integer], *, threads: int = 1) -> NDArray[np.bool_]:
    """Which of many boards have a solution, one or several; a full grid without a clash is its own.

    Args:
        boards: `(N, n²)` integers, 0 for a blank.
        threads: Threads to share the boards among; the result does not depend on it.

    Returns:
        bool `(N,)`; False for a board with a clash.

    Raises:
        BoardError: Wrong shape or a value out of range, or `threads` is below 1.
    """
    return _solve_rows(_check_rows(boards, threads, "completable"), 1, threads)[1] > 0


def _solve_rows(flat: Board, limit: int, threads: int) -> tuple[Board, NDArray[np.int64]]:
    """What `solve_batch` returns, of boards, a limit and threads that have been looked at."""
    size = size_of(flat.shape[1])
    solutions = np.zeros_like(flat)
    counts = np.zeros(len(flat), dtype=np.int64)

    def work(start: int, end: int) -> None:
        part, solved, counted = flat[start:end], solutions[start:end], counts[start:end]
        if size in ROW_WORD_SIZES:
            stack, state = new_stack(size)
            rest: tuple[object, ...] = (part, size, limit, solved, counted, stack, state)
            in_pieces(search_rows_batch, state, len(part), *rest, stop=interrupted)
            return
        search = new_search(size)
        if size == 9:
            rest = (part, limit, solved, counted, search.words, search.state)
            in_pieces(count9_batch, search.state, len(part), *rest, stop=interrupted)
        else:
            table = geometry(size)
            rest = (part, table.units, table.units_of, limit, solved, counted, search)
            in_pieces(search_batch, search.state, len(part), *rest, stop=interrupted)

    interrupted = Event() if threads > 1 else None
    if interrupted is None:
        work(0, len(flat))
    else:
        share = max(_SMALLEST_SHARE, len(flat) // (threads * _SHARES_PER_THREAD))
        starts = range(0, len(flat), share)
        with ThreadPoolExecutor(threads) as pool:
            try:
                list(pool.map(work, starts, [start + share for start in starts]))
            except BaseException:
                interrupted.set()
                raise
    return solutions, counts


def _solve_one(board: BoardLike, limit: int, size: int | None) -> tuple[Board, Int]:
    """The first solution and the number of solutions up to the limit; the usual forms of 9×9 without conversions."""
    if size is None or size == 9:
        solution = np.zeros(_CELLS_OF_NINE, dtype=np.uint8)
        count: Int = NO_COUNT
        if isinstance(board, np.ndarray):
            if board.dtype == np.uint8 and board.shape in ((81,), (9, 9)) and board.flags.c_contiguous:
                count = count9_values(board.reshape(_CELLS_OF_NINE).view(np.uint8), limit, solution)
        elif isinstance(board, str) and len(board) == _CELLS_OF_NINE and board.isascii():
            count = count9_text(np.frombuffer(board.encode("ascii"), dtype=np.uint8), limit, solution)
        if count != NO_COUNT:
            return solution, count
    solutions, counts = _solve_rows(as_board(board, size)[None], limit, 1)
    return solutions[0], counts[0]


def _check_rows(boards: NDArray[np.integer], threads: int, name: str) -> Board:
    """The boards that the function of a name was given, uint8 `(N, n²)`."""
    if threads < 1:
        raise BoardError(f"threads must be at least 1, got {threads}")
    flat = as_boards(boards)
    if flat.ndim != 2:
        raise BoardError(f"{name} needs boards of shape (N, n²), got {flat.shape}; use solve for one board")
    return flat


def _check_limit(limit: int) -> int:
    if limit < 1:
        raise BoardError(f"limit must be at least 1, got {limit}")
    return limit
