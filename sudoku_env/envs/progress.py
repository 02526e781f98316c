"""A puzzle while it is being filled: what stands where, since which step, and which cells are definite now (S1)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import geometry, size_of


@dataclass(frozen=True, eq=False)
class BoardView:
    """What can be shown of a board of n² cells.

    Attributes:
        board: integers `(n²,)`: 0 blank, 1..n a digit, `NOT_A_DIGIT` for any other token.
        givens: bool `(n²,)`, the puzzle's own digits.
        definite: bool `(n²,)`, blank cells that are definite now (S1); none once a cell is wrong.
        guessed: bool `(n²,)`, cells that were filled before they were definite.
        wrong: bool `(n²,)`, cells that differ from the solution, or clash where there are several.
        order: integers `(n²,)`, the step that filled each cell, from 1; 0 for givens and blanks.
        last: The cell that the last step filled; None if it filled none or several.
    """

    board: NDArray[np.integer]
    givens: NDArray[np.bool_]
    definite: NDArray[np.bool_]
    guessed: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    order: NDArray[np.integer]
    last: int | None = None

    @property
    def size(self) -> int:
        """Board size n."""
        return size_of(self.board.size)

    def kind(self, cell: int) -> str:
        """What a cell is: "wrong", "given", "guessed" or "deduced"; of a blank "definite" or "open"."""
        if self.board[cell] == 0:
            return "definite" if self.definite[cell] else "open"
        if self.wrong[cell]:
            return "wrong"
        return "given" if self.givens[cell] else "guessed" if self.guessed[cell] else "deduced"


def view_of(
    board: NDArray[np.integer],
    solution: NDArray[np.integer] | None,
    order: NDArray[np.integer],
    definite: NDArray[np.bool_],
    steps: int,
) -> BoardView:
    """A snapshot of a puzzle that is filled step by step.

    Args:
        board: integers `(n²,)`, the board as in `BoardView`.
        solution: integers `(n²,)`, the digits 1..n; None where any valid grid is right.
        order: integers `(n²,)`, the step that filled each cell, from 1, negative where the cell was not definite; 0 for
            givens and blanks.
        definite: bool `(n²,)`, the definite cells as in `BoardView`.
        steps: Steps taken, those that filled no cell included.

    Returns:
        A view that shares nothing with the arguments.
    """
    filled_at = np.abs(order)
    latest = np.flatnonzero(filled_at == steps)
    return BoardView(
        board=board.copy(),
        givens=(board != 0) & (order == 0),
        definite=definite.copy(),
        guessed=order < 0,
        wrong=wrong_cells(board, solution),
        order=filled_at,
        last=int(latest[0]) if steps and latest.size == 1 else None,
    )


def wrong_cells(board: NDArray[np.integer], solution: NDArray[np.integer] | None) -> NDArray[np.bool_]:
    """The wrong cells of a board `(n²,)` as in `BoardView`; without a solution any valid grid is right."""
    if solution is not None:
        return (board != 0) & (board != solution)
    peers = board[geometry(size_of(board.size)).peers]  # (n², the peers of a cell)
    return (board < 0) | ((board > 0) & (peers == board[:, None]).any(1))
