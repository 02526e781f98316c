"""Sudoku as a chat data set: prompts, expert reasoning with the grid, and pairs of a sound and a faulty answer.

An answer is written as `<REASONING>`, a line for each step, `</REASONING>`, `<RESPONSE>`, the grid, `</RESPONSE>`. Each
tag has a line of its own, so that tokenizers merge none with its neighbors. `sudoku_env.rewards` scores such answers.
"""

from typing import TypedDict

import numpy as np

from sudoku_env.board import Board, BoardLike, format_board, to_string
from sudoku_env.derivation import Derivation, derive, derive_with_fault
from sudoku_env.puzzles import Puzzles
from sudoku_env.text import build_prompt

REASONING_TAGS = ("<REASONING>", "</REASONING>")
RESPONSE_TAGS = ("<RESPONSE>", "</RESPONSE>")

INSTRUCTION = (
    f"Write the steps of your reasoning between {REASONING_TAGS[0]} and {REASONING_TAGS[1]}, "
    f"then the finished grid between {RESPONSE_TAGS[0]} and {RESPONSE_TAGS[1]}."
)


class Message(TypedDict):
    """One turn of a conversation, as chat templates take it.

    Attributes:
        role: Who speaks.
        content: What is said.
    """

    role: str
    content: str


class ChatRow(TypedDict):
    """One row of a chat data set; seed 000, section 2, asks for the first three columns.

    Attributes:
        prompt: The conversation so far: the user's turn.
        chosen: The assistant's turn with a sound derivation and the solution.
        rejected: The assistant's turn with a planted fault and a wrong grid.
        puzzle: n² packed symbols, `.` for a blank.
        solution: n² packed symbols.
    """

    prompt: list[Message]
    chosen: str
    rejected: str
    puzzle: str
    solution: str


def chat_prompt(board: BoardLike, template: str = "short") -> list[Message]:
    """The user's turn: the puzzle in words, and how to write the answer.

    Args:
        board: The puzzle, anything that `as_board` takes.
        template: A key of `TEMPLATES`.

    Returns:
        One message, from whose content `parse_puzzle` reads the same board.

    Raises:
        BoardError: The board is malformed.
        SudokuError: No template has that name.
    """
    return [{"role": "user", "content": f"{build_prompt(board, template)}\n\n{INSTRUCTION}"}]


def chat_answer(derivation: Derivation) -> str:
    """The assistant's turn: the steps between `REASONING_TAGS`, the grid between `RESPONSE_TAGS`."""
    reasoning = f"{REASONING_TAGS[0]}\n{derivation}\n{REASONING_TAGS[1]}"
    return f"{reasoning}\n{RESPONSE_TAGS[0]}\n{format_board(derivation.grid)}\n{RESPONSE_TAGS[1]}"


def chat_row(board: Board, rng: np.random.Generator, template: str = "short") -> ChatRow:
    """A puzzle as a prompt with its expert answer and a faulty one.

    Args:
        board: uint8 `(n²,)`, a puzzle with one solution that `derive` finds, and at least one blank.
        rng: Draws the fault; see `derive_with_fault`.
        template: A key of `TEMPLATES`.

    Raises:
        BoardError: The board is malformed.
        SudokuError: The rules do not fill the board, it has no blank, or no template has that name.
    """
    sound = derive(board)
    return {
        "prompt": chat_prompt(board, template),
        "chosen": chat_answer(sound),
        "rejected": chat_answer(derive_with_fault(board, rng)),
        "puzzle": to_string(board),
        "solution": to_string(sound.grid),
    }


def chat_rows(puzzles: Puzzles, seed: int, template: str = "short") -> list[ChatRow]:
    """A row for each puzzle; row k depends on its puzzle, the seed and k alone.

    Args:
        puzzles: Puzzles that `derive` solves, such as those of `default_puzzles` or `generate(rule="patterns")`.
        seed: Any non-negative integer.
        template: A key of `TEMPLATES`.

    Raises:
        BoardError: A board is malformed.
        SudokuError: See `chat_row`.
    """
    return [chat_row(board, np.random.default_rng([seed, k]), template) for k, board in enumerate(puzzles.boards)]
