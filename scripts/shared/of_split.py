"""Puzzles whose grids belong to a split."""

from collections.abc import Iterable, Iterator

import numpy as np

from sudoku_env import Board, solve_batch
from sudoku_env.reading import read_boards
from sudoku_env.split import split_of


def first_of_split(parts: Iterable[tuple[Board, Board]], split: str, count: int) -> Board:
    """The first `count` 9×9 puzzles whose grids belong to a split, uint8 `(≤ count, 81)`; no more grids are looked at.

    Args:
        parts: Boards and solutions, uint8 `(N, 81)` each.
        split: Name of the split.
        count: Puzzles wanted.
    """
    found: list[Board] = []
    for boards, solutions in parts:
        for board, solution in zip(boards, solutions, strict=True):
            if len(found) == count:
                return np.array(found)
            if split_of(solution) == split:
                found.append(board)
    return np.array(found).reshape(-1, 81)


def packed_of_split(path: str, split: str, count: int) -> Board:
    """The first `count` 9×9 puzzles of a file with one solution and a grid of a split."""
    return first_of_split(_unique(read_boards(path).stacked), split, count)


def _unique(boards: Board) -> Iterator[tuple[Board, Board]]:
    """The boards with one solution and these solutions, of a hundred boards at a time."""
    for first in range(0, len(boards), 100):
        part = boards[first : first + 100]
        solutions, counts = solve_batch(part, limit=2)
        yield part[counts == 1], solutions[counts == 1]
