"""Strict scores of answers in free text, which any trainer or evaluation can take as rewards.

The two are kept apart: `exact_score` is 1 for the solution alone, `partial_score` says how far an answer got.
Both read the answer out of reasoning, code fences, boxes, tables and tags (`read_answer` says how boards may be
written), so that form is not paid for; a puzzle that is only repeated scores 0. No text makes them raise.
"""

import numpy as np

from sudoku_env.board import BoardLike
from sudoku_env.prompts.scoring import Score, puzzle_and_solution, read_answer, read_progress, right_cells, score_answer

__all__ = ["Score", "exact_score", "partial_score", "read_answer", "score_answer"]


def exact_score(
    text: str | None, puzzle: BoardLike, solution: BoardLike | None = None, *, answers: str = "one"
) -> float:
    """1.0 if the last full board in a text is the solution, else 0.0; the arguments and errors of `score_answer`."""
    return score_answer(text, puzzle, solution, answers=answers).exact


def partial_score(
    text: str | None, puzzle: BoardLike, solution: BoardLike | None = None, *, answers: str = "one"
) -> float:
    """The share of the puzzle's blanks that an answer fills rightly, also where it leaves others blank.

    The answer is the last full board in the text; without one, the last board with blanks, the puzzle itself aside. An
    answer that changes or drops one of the puzzle's digits scores 0.0.

    Args:
        text: What a model wrote: any text at all; None is no answer.
        puzzle: Anything that `as_board` takes, with one solution and at least one blank.
        solution: The solution, if it is known; None solves the puzzle.
        answers: With "any" a digit is right that stands in no peer, as in `Score.per_cell`.

    Raises:
        SudokuError: `answers` is unknown.
        BoardError: About puzzle and solution, as in `score_answer`; never about the text.
    """
    start, right = puzzle_and_solution(puzzle, solution, answers)
    board = read_progress(text or "", start)
    blank = start == 0
    if board is None or not np.array_equal(board[~blank], start[~blank]):
        return 0.0
    return float(right_cells(board, start, right)[blank].mean())
