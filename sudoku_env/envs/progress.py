"""A puzzle while it is being filled: what stands where, since which step, and which cells are definite now (S1)."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import geometry, size_of
from sudoku_env.logic import definite_digits


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


def view_of(
    board: NDArray[np.integer],
    solution: NDArray[np.integer],
    order: NDArray[np.integer],
    definite: NDArray[np.bool_],
    steps: int,
) -> BoardView:
    """A snapshot of a puzzle that is filled step by step.

    Args:
        board: integers `(n²,)`, the board as in `BoardView`.
        solution: integers `(n²,)`, the digits 1..n.
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
        wrong=(board != 0) & (board != solution),
        order=filled_at,
        last=int(latest[0]) if steps and latest.size == 1 else None,
    )


@dataclass(eq=False)
class Progress:
    """The changing record behind a `BoardView`.

    Attributes:
        puzzle: uint8 `(n²,)`, the puzzle, 0 for a blank.
        solution: uint8 `(n²,)`, the digits 1..n; None where any valid grid is right.
        board: int16 `(n²,)`, the puzzle and what was filled in.
        definite: bool `(n²,)`, S1 of the board; a new array after each step, none once a cell is wrong.
        guessed: bool `(n²,)`, the guessed cells as in `BoardView`.
        order: int64 `(n²,)`, the step that filled each cell, as in `BoardView`.
        steps: Steps taken, those outside the map included.
        last: The cell that the last step filled, as in `BoardView`.
        error: Whether a cell is wrong.
    """

    puzzle: NDArray[np.uint8]
    solution: NDArray[np.uint8] | None
    board: NDArray[np.int16] = field(init=False)
    definite: NDArray[np.bool_] = field(init=False)
    guessed: NDArray[np.bool_] = field(init=False)
    order: NDArray[np.int64] = field(init=False)
    steps: int = field(init=False, default=0)
    last: int | None = field(init=False, default=None)
    error: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.board = self.puzzle.astype(np.int16)
        self.definite = definite_digits(self.puzzle) > 0
        self.guessed = np.zeros(self.puzzle.size, dtype=bool)
        self.order = np.zeros(self.puzzle.size, dtype=np.int64)

    def fill(self, cells: NDArray[np.integer], digits: NDArray[np.integer]) -> None:
        """Take one step.

        Args:
            cells: integers `(m,)`, the blank cells filled at once; empty for a step outside the map.
            digits: integers `(m,)`, what was written there: 1..n or `NOT_A_DIGIT`.
        """
        self.steps += 1
        self.last = int(cells[0]) if len(cells) == 1 else None
        if not len(cells):
            return
        self.guessed[cells] = ~self.definite[cells]
        self.order[cells] = self.steps
        self.board[cells] = digits
        self.error = bool(self.wrong.any())
        self.definite = np.zeros_like(self.definite) if self.error else definite_digits(self.board) > 0

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """The wrong cells as in `BoardView`, a new array."""
        if self.solution is not None:
            return (self.board != 0) & (self.board != self.solution)
        peers = self.board[geometry(size_of(self.board.size)).peers]  # (n², the peers of a cell)
        return (self.board < 0) | ((self.board > 0) & (peers == self.board[:, None]).any(1))

    def view(self) -> BoardView:
        """A snapshot that shares nothing with the record."""
        return BoardView(
            board=self.board.copy(),
            givens=self.puzzle > 0,
            definite=self.definite.copy(),
            guessed=self.guessed.copy(),
            wrong=self.wrong,
            order=self.order.copy(),
            last=self.last,
        )
