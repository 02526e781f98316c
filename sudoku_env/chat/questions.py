"""Sudoku as questions with expert answers, for trainers that learn from experts alone, and a check of answers."""

from collections.abc import Mapping
from typing import TypedDict

from sudoku_env.board import to_string
from sudoku_env.chat.derivation import derive
from sudoku_env.chat.rewards import exact_reward
from sudoku_env.chat.rows import Form, chat_answer, chat_prompt
from sudoku_env.puzzles import Puzzles


class QuestionRow(TypedDict):
    """A row of a data set of questions; `sudoku_env.chat.rewards` reads the last two columns.

    Attributes:
        question: The puzzle in words.
        answer: The expert's: the steps of the rule ladder in hidden reasoning, then the grid.
        puzzle: n² packed symbols, `.` for a blank.
        solution: n² packed symbols.
    """

    question: str
    answer: str
    puzzle: str
    solution: str


def question_rows(puzzles: Puzzles, form: Form = "brief") -> list[QuestionRow]:
    """A row for each puzzle.

    Args:
        puzzles: Puzzles that `derive` solves.
        form: The form of prompt and answer, as in `chat_prompt` and `chat_answer`.

    Raises:
        BoardError: A board is malformed.
        SudokuError: The rules do not fill a board, or no form has that name.
    """
    rows: list[QuestionRow] = []
    for board in puzzles.boards:
        sound = derive(board)
        rows.append(
            {
                "question": chat_prompt(board, form=form)[-1]["content"],
                "answer": chat_answer(sound, form),
                "puzzle": to_string(board),
                "solution": to_string(sound.grid),
            }
        )
    return rows


def correct(answer: str, row: Mapping[str, str]) -> bool:
    """Whether an answer's grid is the solution of a row, as `exact_reward` reads it. No text makes it raise."""
    columns = {name: [row[name]] for name in ("puzzle", "solution")}
    return exact_reward([None], [answer], **columns) == [1.0]
