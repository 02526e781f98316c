"""Sudoku as a chat data set: prompts, expert reasoning with the grid, and pairs of a sound and a faulty answer.

An answer is written as `<REASONING>`, a line for each step, `</REASONING>`, `<RESPONSE>`, the grid, `</RESPONSE>`. Each
tag has a line of its own, so that tokenizers merge none with its neighbors. `sudoku_env.chat.rewards` scores such
answers.
"""

from typing import Any, Literal, TypedDict, get_args

import numpy as np

from sudoku_env.board import Board, BoardLike, as_board, format_board, size_of, to_string
from sudoku_env.chat.derivation import Derivation, derive, derive_with_fault
from sudoku_env.errors import SudokuError
from sudoku_env.prompts.text import build_prompt
from sudoku_env.puzzles import Puzzles

REASONING_TAGS = ("<REASONING>", "</REASONING>")
RESPONSE_TAGS = ("<RESPONSE>", "</RESPONSE>")

INSTRUCTION = (
    f"Write the steps of your reasoning between {REASONING_TAGS[0]} and {REASONING_TAGS[1]}, "
    f"then the finished grid between {RESPONSE_TAGS[0]} and {RESPONSE_TAGS[1]}."
)

Form = Literal["full", "brief", "response"]


class Message(TypedDict):
    """One turn of a conversation, as chat templates take it.

    Attributes:
        role: Who speaks.
        content: What is said: a text, or a list of parts with pictures.
    """

    role: str
    content: Any


class ChatRow(TypedDict):
    """One row of a chat data set; its first three columns are those that VAPOR asks for (docs/vapor.md).

    Attributes:
        prompt: The conversation so far, up to the user's turn.
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


def chat_prompt(board: BoardLike, template: str | None = None, form: Form = "full") -> list[Message]:
    """The conversation up to the user's turn: the puzzle in words, and how to write the answer.

    Args:
        board: The puzzle, anything that `as_board` takes.
        template: A key of `TEMPLATES`, for the form "full" alone; None: "short".
        form: "full" says how to answer. "brief" and "response" are short, for models that have seen such answers: the
            puzzle in packed lines with 0 for a blank, so that a tokenizer that splits digits gives each cell a token,
            after an empty system turn, which keeps chat templates from putting a long one of their own there.

    Returns:
        Messages; from the last one's content `parse_puzzle` reads the same board.

    Raises:
        BoardError: The board is malformed.
        SudokuError: No template or form has that name, or a short form gets a template.
    """
    if form not in get_args(Form):
        raise SudokuError(f"unknown form {form!r}; choose one of {list(get_args(Form))}")
    if form == "full":
        content = f"{build_prompt(board, 'short' if template is None else template)}\n\n{INSTRUCTION}"
        return [{"role": "user", "content": content}]
    if template is not None:
        raise SudokuError(f"the form {form!r} has its own wording, not template {template!r}; leave the template out")
    size = size_of(as_board(board).size)
    content = f"Complete the {size}x{size} Sudoku:\n{format_board(board, blank='0', separator='')}"
    return [{"role": "system", "content": ""}, {"role": "user", "content": content}]


def chat_answer(derivation: Derivation, form: Form = "full") -> str:
    """The assistant's turn: the steps between `REASONING_TAGS`, the grid between `RESPONSE_TAGS`.

    Args:
        derivation: The derivation, sound or not.
        form: "full", steps with their reasons; "brief", conclusions alone and a packed grid; "response", that grid
            without reasoning.

    Raises:
        SudokuError: No form has that name.
    """
    if form not in get_args(Form):
        raise SudokuError(f"unknown form {form!r}; choose one of {list(get_args(Form))}")
    grid = format_board(derivation.grid, separator=" " if form == "full" else "")
    response = f"{RESPONSE_TAGS[0]}\n{grid}\n{RESPONSE_TAGS[1]}"
    if form == "response":
        return response
    steps = str(derivation) if form == "full" else derivation.conclusions
    return f"{REASONING_TAGS[0]}\n{steps}\n{REASONING_TAGS[1]}\n{response}"


def chat_row(board: Board, rng: np.random.Generator, template: str | None = None, form: Form = "full") -> ChatRow:
    """A puzzle, uint8 `(n²,)`, as a prompt with its expert answer and a faulty one, whose fault the generator draws.

    The arguments and errors are those of `derive_with_fault`, `chat_prompt` and `chat_answer`.
    """
    sound = derive(board)
    return {
        "prompt": chat_prompt(board, template, form),
        "chosen": chat_answer(sound, form),
        "rejected": chat_answer(derive_with_fault(board, rng), form),
        "puzzle": to_string(board),
        "solution": to_string(sound.grid),
    }


def chat_rows(puzzles: Puzzles, seed: int, template: str | None = None, form: Form = "full") -> list[ChatRow]:
    """A row for each puzzle; row k depends on its puzzle, the seed and k alone.

    Args:
        puzzles: Puzzles that `derive` solves, such as those of `default_puzzles` or `generate(rule="patterns")`.
        seed: Any non-negative integer.
        template: The wording of the puzzle, as in `chat_prompt`.
        form: The form of prompt and answer, as in `chat_prompt` and `chat_answer`.

    Raises:
        BoardError: A board is malformed.
        SudokuError: `chat_row` refuses a puzzle, the template or the form.
    """
    return [chat_row(board, np.random.default_rng([seed, k]), template, form) for k, board in enumerate(puzzles.boards)]
