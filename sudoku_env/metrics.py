"""Metrics of decoding order that need no model."""

import numpy as np

from sudoku_env.board import Board
from sudoku_env.errors import SudokuError
from sudoku_env.logic import forced_digits


def random_order_floor(boards: Board, solutions: Board, *, seed: int, orders: int = 1) -> float:
    """Share of decisions that fall on a forced cell when blanks are filled correctly in uniformly random order.

    The floor of `greedy_forced`: an order that knows no logic scores this much.

    Args:
        boards: uint8 `(N, n²)`, puzzles with at least one blank in all.
        solutions: uint8 `(N, n²)`.
        seed: Of the orders.
        orders: Random orders for each puzzle.

    Raises:
        SudokuError: There is no blank cell, or shapes differ.
    """
    if boards.shape != solutions.shape or boards.ndim != 2 or not (boards == 0).any():
        raise SudokuError(f"need boards with blanks and their solutions, got shapes {boards.shape}, {solutions.shape}")
    generator = np.random.default_rng(seed)
    forced = decisions = 0
    for _ in range(orders):
        current = boards.copy()
        priority = generator.random(boards.shape)
        for _ in range(int((boards == 0).sum(1).max())):
            rows = np.flatnonzero((current == 0).any(1))
            cells = np.where(current[rows] == 0, priority[rows], -1.0).argmax(1)
            forced += int((forced_digits(current[rows])[np.arange(len(rows)), cells] > 0).sum())
            decisions += len(rows)
            current[rows, cells] = solutions[rows, cells]
    return forced / decisions
