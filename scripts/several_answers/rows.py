"""The figures of the ceilings: exact ones of 4×4, those of 6×6 by decodes, and of a first pass alone for 9×9."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.several_answers.exact import ceilings
from scripts.several_answers.ideal import TOKENS, Order, grids_by_first_row, passes
from sudoku_env.board import Board
from sudoku_env.solver import solve_batch

ORDERS = {
    "random": Order("random"),
    "margin": Order("margin"),
    "probability": Order("probability"),
    "margin, ties to the left": Order("margin", ties="left"),
    "probability, ties to the left": Order("probability", ties="left"),
}
MAIN = ("random", "margin")
"""The orders of the picture, and of 6×6."""
CELLS = {4: (1, 2, 4, 8, 16), 6: (1, 2, 4, 6, 9), 9: (2, 4, 8, 16)}
"""Cells a pass, by size."""
Row = dict[str, Any]


def exact_rows(orders: Sequence[str]) -> list[Row]:
    """The figures of 4×4 in some orders, for each number of clues."""
    return [
        {"size": 4, "clues": str(clues), "order": name, "tokens": tokens, "cells": cells, "valid": float(valid)}
        for name in orders
        for cells in CELLS[4]
        for found in [ceilings(ORDERS[name], cells)]
        for clues in range(16)
        for tokens, valid in zip(TOKENS, found.mean(clues), strict=True)
    ]


def drawn_boards(count: int, clues: tuple[int, int], seed: int) -> Board:
    """6×6 boards with so many clues, the fewest and the most, of uniform grids, uint8 `(N, 36)`."""
    rng = np.random.default_rng([seed, 0])
    grids = grids_by_first_row(6)
    boards = np.zeros((count, 36), dtype=np.uint8)
    for board in boards:
        grid = (1 + rng.permutation(6))[grids[rng.integers(len(grids))] - 1]
        cells = rng.permutation(36)[: rng.integers(clues[0], clues[1] + 1)]
        board[cells] = grid[cells]
    return boards


def decoded_rows(orders: Sequence[str], decodes: int, clues: tuple[int, int], seed: int) -> list[Row]:
    """The figures of 6×6 in some orders, from one decode of each board; `passes` is the mean of the valid decodes."""
    boards = drawn_boards(decodes, clues, seed)
    rows = []
    for name in orders:
        for cells in CELLS[6]:
            for way, tokens in enumerate(TOKENS):
                rng = np.random.default_rng([seed, 1])
                ends = [decoded(board, ORDERS[name], cells, way, rng) for board in boards]
                made = [number for is_valid, number in ends if is_valid]
                about = {"size": 6, "clues": f"{clues[0]}–{clues[1]}", "order": name, "tokens": tokens, "cells": cells}
                share = drawn_share(np.array([is_valid for is_valid, _ in ends]))
                rows.append({**about, **share, "passes": float(np.mean(made)) if made else np.nan})
    return rows


def decoded(board: Board, order: Order, cells: int, tokens: int, rng: np.random.Generator) -> tuple[bool, int]:
    """Whether one decode of a board ends in a valid grid, and after how many passes it ends; arguments of `passes`."""
    is_valid, number = True, -1
    for _, completions in passes(board, order, cells, tokens, rng):
        is_valid, number = len(completions) > 0, number + 1
    return is_valid, number


def first_pass(size: int, cells: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Whether the first pass on the empty board leaves a completion, bool `(count,)`, in so many draws.

    On the empty board every marginal is uniform, so that all cells and all digits are equally likely in any order that
    breaks ties at random.
    """
    boards = np.zeros((count, size * size), dtype=np.uint8)
    chosen = (-rng.random(boards.shape)).argsort(1)[:, :cells]
    for cell in chosen.T:
        boards[np.arange(count), cell] = rng.integers(1, size + 1, size=count)
    return solve_batch(boards)[1] > 0


def first_pass_rows(draws: int, seed: int) -> list[Row]:
    """Of the empty 9×9 board, how often the first pass leaves a completion; in one order, which stands for all."""
    return [
        {"size": 9, "clues": "0", "order": "random", "tokens": "either", "cells": cells}
        | drawn_share(first_pass(9, cells, draws, np.random.default_rng([seed, 2])))
        for cells in CELLS[9]
    ]


def drawn_share(valid: NDArray[np.bool_]) -> Row:
    """A share, half the width of its 95 % interval (Wilson's), and the number of draws."""
    share, count, z = float(valid.mean()), len(valid), 1.96
    half = z / (1 + z**2 / count) * (share * (1 - share) / count + (z / (2 * count)) ** 2) ** 0.5
    return {"valid": share, "half_width": half, "decodes": count}
