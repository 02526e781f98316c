"""One completion of each board by a rule, for supervised training to settle on."""

from collections.abc import Iterable

import numba
import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, geometry
from sudoku_env.solver import solve_batch


def solver_answer(boards: Board) -> Board:
    """The completion that the solver finds first.

    Args:
        boards: uint8 `(N, n²)`, each with a completion.
    """
    return solve_batch(boards)[0]


def least_answer(boards: Board, order: Iterable[int] | None = None) -> Board:
    """The completion that is least when read as a number.

    Args:
        boards: uint8 `(N, n²)`, each with a completion.
        order: The n² cells as they are read, the first counting most; None is from left to right, row by row.

    Raises:
        ValueError: A board has none.
    """
    answers, counts = solve_batch(boards)
    if not counts.all():
        raise _no_completion(boards[counts.argmin()])
    size = int(boards.shape[1] ** 0.5)
    grid = boards.copy()
    for cell in range(boards.shape[1]) if order is None else order:
        # Up to the digit of a known completion that agrees so far, the least one that leaves a completion.
        for digit in range(1, size):
            rows = np.flatnonzero((grid[:, cell] == 0) & (answers[:, cell] > digit))
            tried = grid[rows]
            tried[:, cell] = digit
            found, counts = solve_batch(tried)
            better = rows[counts > 0]
            grid[better, cell], answers[better] = digit, found[counts > 0]
        grid[:, cell] = answers[:, cell]
    return grid


def nearest_answer(boards: Board) -> Board:
    """The completion that differs in fewest cells from one grid, the least completion of the empty board.

    Of equally near ones it is that which agrees first in reading order. The search is exhaustive: seconds for boards
    of 4×4 and 6×6, and beyond waiting for 9×9.

    Args:
        boards: uint8 `(N, n²)`, each with a completion.

    Raises:
        ValueError: A board has none.
    """
    size = int(boards.shape[1] ** 0.5)
    pattern, peers = least_answer(np.zeros_like(boards[:1]))[0], geometry(size).peers
    answers = np.zeros_like(boards)
    for board, answer in zip(boards, answers, strict=True):
        if not _search(board, pattern, peers, size, answer):
            raise _no_completion(board)
    return answers


def _no_completion(board: Board) -> ValueError:
    return ValueError(f"the board {''.join(map(str, board))} has no completion")


@numba.njit
def _search(
    board: Board, pattern: Board, peers: NDArray[np.int64], size: int, answer: Board
) -> bool:  # pragma: no cover - compiled
    """Depth first in reading order, the pattern's digit before the others, with a bound."""
    cells = len(board)
    counts = np.zeros((cells, size + 1), np.int64)  # how many written peers of a cell have a digit
    grid = board.copy()
    for cell in range(cells):
        if grid[cell]:
            for peer in peers[cell]:
                counts[peer, grid[cell]] += 1
    for cell in range(cells):
        if grid[cell] and counts[cell, grid[cell]]:
            return False
    open_cells = np.flatnonzero(board == 0)
    depth, found, best = 0, False, cells + 1
    tried = np.zeros(len(open_cells) + 1, np.int64)  # digits tried at each depth; 1 is the pattern's
    while depth >= 0:
        if depth == len(open_cells):
            distance = 0
            for cell in range(cells):
                distance += grid[cell] != pattern[cell]
            if distance < best:
                best, found = distance, True
                answer[:] = grid
            depth -= 1
            continue

        # Take back what stands here, then write the next digit that may.
        cell = open_cells[depth]
        if grid[cell]:
            for peer in peers[cell]:
                counts[peer, grid[cell]] -= 1
            grid[cell] = 0
        written = False
        while tried[depth] < size and not written:
            tried[depth] += 1
            rank = tried[depth]
            first = pattern[cell]
            digit = first if rank == 1 else (rank - 1 if rank - 1 < first else rank)
            if counts[cell, digit]:
                continue
            grid[cell] = digit
            for peer in peers[cell]:
                counts[peer, digit] += 1
            written = _can_be_nearer(grid, pattern, counts, size, best)
            if not written:
                for peer in peers[cell]:
                    counts[peer, digit] -= 1
                grid[cell] = 0
        if written:
            depth += 1
            tried[depth] = 0
        else:
            tried[depth] = 0
            depth -= 1
    return found


@numba.njit
def _can_be_nearer(
    grid: Board, pattern: Board, counts: NDArray[np.int64], size: int, best: int
) -> bool:  # pragma: no cover - compiled
    """Whether every open cell has a digit left, and fewer than `best` cells must differ from the pattern."""
    distance = 0
    for cell in range(len(grid)):
        if grid[cell]:
            distance += grid[cell] != pattern[cell]
            continue
        distance += counts[cell, pattern[cell]] > 0
        left = False
        for digit in range(1, size + 1):
            left |= counts[cell, digit] == 0
        if not left:
            return False
    return distance < best
