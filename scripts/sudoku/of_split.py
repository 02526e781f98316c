"""Puzzles whose grids belong to a split."""

from collections.abc import Iterable

import numpy as np

from sudoku_env import Board
from sudoku_env.split import split_of


def first_of_split(parts: Iterable[tuple[Board, Board]], split: str, count: int, size: int = 9) -> Board:
    """The first `count` puzzles whose grids belong to a split, uint8 `(≤ count, n²)`; no more grids are looked at.

    Args:
        parts: Boards and solutions, uint8 `(N, n²)` each.
        split: Name of the split.
        count: Puzzles wanted.
        size: Board size n.
    """
    found: list[Board] = []
    for boards, solutions in parts:
        for board, solution in zip(boards, solutions, strict=True):
            if len(found) == count:
                return np.array(found)
            if split_of(solution) == split:
                found.append(board)
    return np.array(found).reshape(-1, size**2)
