"""Which answers to a puzzle are right: its only solution, or any of several.

Where any is right, a digit is wrong if it leaves no solution, and S1 are the cells that are the same in all solutions.
"""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, conflicts
from sudoku_env.errors import SudokuError
from sudoku_env.logic import definite_cells, definite_digits, rule_index
from sudoku_env.solver import completable, solve_batch

Answers = Literal["one", "any"]
"""The right answers to a puzzle: "one", it must have exactly one solution; "any", every solution is right."""

Guard = Literal["completable", "rules"]
"""Which boards may stand: those with a solution, or those with no digit twice in a unit."""

REMEDY = 'pass answers="any" where every solution is right'


def check_known(name: str, value: str, choices: Any) -> Any:
    """The value, if it is one of a `Literal` type's choices; a `SudokuError` if not."""
    if value not in get_args(choices):
        raise SudokuError(f"{name}={value!r} is unknown; use one of {get_args(choices)}")
    return value


def check_answers(answers: str) -> Answers:
    """The right answers, if they are known; a `SudokuError` if not."""
    found: Answers = check_known("answers", answers, Answers)
    return found


def solutions_to_count(answers: Answers) -> int:
    """How many solutions of a puzzle to look for: a second one matters only where there must be no other."""
    return 2 if answers == "one" else 1


def definite_rule(rule: str | None, answers: Answers) -> str:
    """The rule by which cells count as definite; None: "singles", or "backbone" where any answer is right.

    None of `logic.RULES` assumes that there is one solution, so that a definite digit stands in every one.

    Raises:
        BoardError: There is no such rule or group.
    """
    if rule is None:
        return "singles" if answers == "one" else "backbone"
    rule_index(rule)
    return rule


def are_definite(boards: NDArray[np.integer], rule: str) -> NDArray[np.bool_]:
    """Which cells are definite by a rule, bool of the boards' shape, as `definite_cells` finds them.

    Singles are read off the boards as they stand, contradictory ones too, which is faster.
    """
    return (definite_digits(boards) if rule == "singles" else definite_cells(boards, rule)) > 0


def may_stand(boards: Board, guard: Guard) -> NDArray[np.bool_]:
    """Which boards, uint8 `(N, n²)` with 0 for a blank, a guard lets stand: bool `(N,)`."""
    return completable(boards) if guard == "completable" else ~np.logical_or.reduce(conflicts(boards), axis=1)


def follow_boards(boards: Board, solutions: Board) -> None:
    """Replace the solutions that boards no longer agree with by others that they can still be completed to.

    Args:
        boards: uint8 `(B, n²)`, 0 for a blank.
        solutions: uint8 `(B, n²)`, full grids; those of boards without a solution stay as they are.
    """
    astray = np.flatnonzero(((boards > 0) & (boards != solutions)).any(1))
    found, counts = solve_batch(boards[astray])
    solutions[astray[counts > 0]] = found[counts > 0]
