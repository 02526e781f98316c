"""One completion of each board by a rule, for supervised training to settle on."""

import numpy as np

from sudoku_env.board import Board
from sudoku_env.solver import solve_batch


def least_answer(boards: Board) -> Board:
    """The completion that is least when read as a number, from left to right, row by row.

    Args:
        boards: uint8 `(N, n²)`, each with a completion.

    Raises:
        ValueError: A board has none.
    """
    answers, counts = solve_batch(boards)
    if not counts.all():
        raise ValueError(f"the board {''.join(map(str, boards[counts.argmin()]))} has no completion")
    size = int(boards.shape[1] ** 0.5)
    grid = boards.copy()
    for cell in range(boards.shape[1]):
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
