"""One puzzle in play by moves in words: the board, what a move changes, what is said about it, and what it is worth."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudoku_env.answers import Answers
from sudoku_env.board import Board, cell_name, geometry, size_of
from sudoku_env.chat.moves import Move
from sudoku_env.errors import MoveError
from sudoku_env.explanation import iterate_steps, unit_name
from sudoku_env.logic import RULE_GROUPS, definite_cells, rule_index
from sudoku_env.solver import completable, solve_batch


class Hint(NamedTuple):
    """A sentence, and its price by `hint_grade`: 1 for a digit to take back, that of a search for a choice."""

    text: str
    grade: int


@dataclass(eq=False)
class Game:
    """A puzzle in play. No digit that clashes with another is ever on the board, so a full board is a solution.

    Attributes:
        puzzle: uint8 `(n²,)`, the givens.
        solution: uint8 `(n²,)`, the only solution; where any answer is right the one of `closest_solution`.
        rule: The rule by which `definite` counts a cell as definite, as in `definite_cells`.
        answers: The right answers.
        board: uint8 `(n²,)`, the givens and the player's digits.
        credited: bool `(n²,)`, the cells whose right digit was definite when the player placed it, and still stands.
        told: The candidates, as (cell, digit), that the hints so far have eliminated.
    """

    puzzle: Board
    solution: Board
    rule: str = "singles"
    answers: Answers = "one"
    board: Board = field(init=False)
    credited: NDArray[np.bool_] = field(init=False)
    told: set[tuple[int, int]] = field(init=False, default_factory=set)
    _changes: list[tuple[int, int, bool]] = field(init=False, default_factory=list)  # cell, digit and credit before

    def __post_init__(self) -> None:
        self.board = self.puzzle.copy()
        self.credited = np.zeros(self.puzzle.shape, dtype=bool)
        self._solve()

    @property
    def size(self) -> int:
        """Board size n."""
        return size_of(self.puzzle.size)

    @property
    def blanks(self) -> int:
        """Number of cells that the puzzle leaves open."""
        return int((self.puzzle == 0).sum())

    @property
    def solved(self) -> bool:
        """Whether the board is the solution."""
        return bool((self.board == self.solution).all())

    @property
    def dead_end(self) -> bool:
        """Whether the digits on the board leave no solution."""
        return bool(((self.board > 0) & (self.board != self.solution)).any())

    def share_of_blanks(self, cells: NDArray[np.bool_]) -> float:
        """The share of the puzzle's blanks that are among some cells, bool `(n²,)`."""
        return float(cells[self.puzzle == 0].mean())

    def place(self, row: int, column: int, digit: int) -> str:
        """Write a digit, also over one of the player's own.

        Raises:
            MoveError: A number is out of range, the cell is a given, or a cell that shares a unit holds the digit. The
                board stays as it was. A digit that only differs from the solution is no error.
        """
        cell = self._own_cell(row, column)
        self._check_range("digit", digit)
        units = geometry(self.size).units
        for unit in geometry(self.size).units_of[cell]:
            for other in units[unit]:
                if other != cell and self.board[other] == digit:
                    raise MoveError(
                        f"{unit_name(int(unit), self.size)} already holds {digit} ({cell_name(int(other), self.size)})"
                    )
        self._write(cell, digit, self._follows(cell, digit))
        return f"{cell_name(cell, self.size).capitalize()} is now {digit}."

    def erase(self, row: int, column: int) -> str:
        """Take back one of the player's digits.

        Raises:
            MoveError: A number is out of range, the cell is a given, or nothing is written there.
        """
        cell = self._own_cell(row, column)
        if not self.board[cell]:
            raise MoveError(f"{cell_name(cell, self.size)} is empty already")
        self._write(cell, 0, False)
        return f"{cell_name(cell, self.size).capitalize()} is empty again."

    def undo(self) -> str:
        """Take back the last change that still stands, of `place` or `erase`; the next call that before it.

        Raises:
            MoveError: None stands.
        """
        if not self._changes:
            raise MoveError("nothing is left to undo")
        cell, digit, credited = self._changes.pop()
        self._write(cell, digit, credited)
        self._changes.pop()  # undoing is no change
        return f"{cell_name(cell, self.size).capitalize()} is {digit or 'empty'} again."

    def hint(self) -> Hint:
        """The ladder's next step: the easiest that places a digit, or eliminates what no hint has eliminated yet.

        While a digit on the board is wrong, no step would mean anything; then the first such digit is named. Where
        nothing follows, as solutions differ in every blank, one of the digits that are right is.
        """
        wrong = np.flatnonzero((self.board > 0) & (self.board != self.solution))
        if wrong.size:
            cell = int(wrong[0])
            return Hint(f"{self.board[cell]} in {cell_name(cell, self.size)} is wrong; erase it.", 1)
        # The next step that is news; there is none where solutions differ in every blank.
        steps = iterate_steps(self.board, "backbone")
        news = (step for step in steps if step.cell is not None or not self.told.issuperset(step.eliminated))
        if (step := next(news, None)) is None:
            cell = int(np.flatnonzero(self.board == 0)[0])
            told = f"No digit follows: several solutions are left. In one of them {cell_name(cell, self.size)} is"
            return Hint(f"{told} {self.solution[cell]}.", hint_grade("backbone"))
        self.told.update(step.eliminated)
        return Hint(str(step), hint_grade(step.rule))

    def _write(self, cell: int, digit: int, credited: bool) -> None:
        """Change a cell, with a note for `undo`."""
        self._changes.append((cell, int(self.board[cell]), bool(self.credited[cell])))
        self.board[cell], self.credited[cell] = digit, credited
        self._solve()

    def _solve(self) -> None:
        """Bring the solution up to date after a change of the board."""
        if self.answers == "any":
            self.solution = closest_solution(self.puzzle, self.board)

    def _own_cell(self, row: int, column: int) -> int:
        """The cell of a row and a column from 1, if it is the player's."""
        self._check_range("row", row)
        self._check_range("column", column)
        cell = (row - 1) * self.size + column - 1
        if self.puzzle[cell]:
            raise MoveError(f"{cell_name(cell, self.size)} is given by the puzzle and stays {self.puzzle[cell]}")
        return cell

    def _check_range(self, name: str, number: int) -> None:
        if not 1 <= number <= self.size:
            raise MoveError(f"{name} must be from 1 to {self.size}, got {number}")

    def _follows(self, cell: int, digit: int) -> bool:
        """Whether a digit is right and definite now; none is once a digit is wrong."""
        before = self.board.copy()
        before[cell] = 0
        return bool(completable(before[None])[0] and definite_cells(before, self.rule)[cell] == digit)


def closest_solution(puzzle: Board, board: Board) -> Board:
    """A solution of a puzzle that has the player's digits, less those that leave none beside the ones kept before them.

    The board has the givens and the player's digits, which are gone through cell by cell. The solution differs from it
    in the blanks and in the digits left out, and nowhere else; all are uint8 `(n²,)`.
    """
    kept = board.copy()
    if not completable(kept[None])[0]:
        kept = puzzle.copy()
        for cell in np.flatnonzero((board > 0) & (puzzle == 0)):
            kept[cell] = board[cell]
            if not completable(kept[None])[0]:
                kept[cell] = 0
    return solve_batch(kept[None])[0][0]


def play(game: Game, move: Move) -> tuple[str, Hint | None]:
    """Make a move on the board: what is said about it, and the hint if it asked for one; `give_up` changes nothing.

    A move that the board does not allow is a `MoveError`, and the board stays as it was.
    """
    if move.name == "hint":
        hint = game.hint()
        return f"Hint (grade {hint.grade}): {hint.text}", hint
    if move.name == "give_up":
        return "You gave up.", None
    return getattr(game, move.name)(*move.numbers), None


def hint_grade(rule: str) -> int:
    """How hard a rule is, by the groups of `logic.RULE_GROUPS`: 1 for singles to 8 for turbot fish; 9 for a search."""
    index = rule_index(rule)
    return 1 + sum(index > rule_index(group) for group in RULE_GROUPS)


VALUES: dict[str, Callable[[Game], float]] = {
    "solved": lambda game: float(game.solved),
    "cells": lambda game: game.share_of_blanks(game.board == game.solution),
    "completable": lambda game: 0.0 if game.dead_end else game.share_of_blanks(game.board > 0),
    "definite": lambda game: game.share_of_blanks(game.credited),
}
"""What a game is worth: 1 for the solved grid; the share of the puzzle's blanks that hold the right digit; that of the
blanks filled, while the digits leave a solution; that of the blanks whose right digit was definite when placed."""
