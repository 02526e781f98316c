"""The first turn of a game in words, and data sets of games."""

from typing import Any, TypedDict

import numpy as np

from sudoku_env.answers import Answers, check_answers
from sudoku_env.board import Board, format_board, geometry, size_of, to_string
from sudoku_env.chat.moves import GRAMMAR
from sudoku_env.chat.rows import Message
from sudoku_env.chat.text_rules import TextRules
from sudoku_env.envs.rendering import board_picture
from sudoku_env.errors import SudokuError
from sudoku_env.generator import DEFAULT_CLUES, generate

SEEDS = 2**53  # an integer below it is the same in JSON everywhere

_OPENING = (
    "Solve this {n}x{n} Sudoku. In the finished grid each digit from 1 to {n} stands exactly once in every row, every "
    "column and every box. A box is {box_rows} rows high and {box_columns} columns wide. A dot is an empty cell. Rows "
    "and columns are counted from 1, from the top left.{several}\n\n{how}\n\n{where}"
)
_SEVERAL = " The puzzle may have several solutions; any of them is right."
_BY_TEXT = (
    "You play in turns, at most {turns} of them. Write one move as the last line of each message:\n\n"
    f"{GRAMMAR}\n\n"
    "A hint is the next step by logic, and costs points."
)
_BY_TOOLS = (
    "You play by calling tools, at most {turns} calls: place writes a digit, erase takes back one of yours, undo the "
    "last change, hint tells the next step by logic and costs points, give_up ends the game."
)


class TextRow(TypedDict):
    """A row of a data set of games; `SudokuText.reset(options={"puzzle": row["puzzle"]})` plays its puzzle.

    Attributes:
        prompt: The first turn of the conversation.
        puzzle: n² packed symbols, `.` for a blank.
        size: Board size n.
        clues: Number of givens.
        rule: The hardest rule that the puzzle may need, as in `generate`; None if that is open.
        seed: The seed of `generate` and of `SudokuText.reset` for this puzzle.
    """

    prompt: list[Message]
    puzzle: str
    size: int
    clues: int
    rule: str | None
    seed: int


def opening(
    puzzle: Board, max_turns: int, *, tools: bool = False, answers: Answers = "one", picture: bool = False
) -> str:
    """The first turn of a game: the rules of Sudoku, how to play, and the puzzle, which `parse_puzzle` reads.

    Moves are written, or made by calling tools; a picture may show the puzzle, uint8 `(n²,)`, in place of the text.
    With `answers="any"` it says that any solution is right.
    """
    table = geometry(size_of(puzzle.size))
    return _OPENING.format(
        n=table.size,
        box_rows=table.box_rows,
        box_columns=table.box_columns,
        several=_SEVERAL if answers == "any" else "",
        how=(_BY_TOOLS if tools else _BY_TEXT).format(turns=max_turns),
        where="The picture shows it." if picture else f"The puzzle, one row a line:\n\n{format_board(puzzle)}",
    )


def with_picture(text: str, board: Board, puzzle: Board) -> list[dict[str, Any]]:
    """A message's parts: a picture of a board, uint8 `(n²,)`, with the puzzle's digits as givens, and a text."""
    return [{"type": "image", "image": board_picture(board, puzzle)}, {"type": "text", "text": text}]


def text_rows(
    n: int,
    *,
    size: int = 9,
    clues: int | tuple[int, int] | None = None,
    rule: str | None = None,
    seed: int = 0,
    max_turns: int | None = None,
    tools: bool = False,
    answers: str = "one",
    picture: bool = False,
) -> list[TextRow]:
    """Games as rows; row k depends on the seed, k, and the arguments that describe a puzzle.

    Args:
        n: Number of rows.
        size: Board size.
        clues: Number of givens or a range of it, as in `SudokuText`.
        rule: The hardest rule that a puzzle may need, as in `generate`.
        seed: Any non-negative integer.
        max_turns: The turns that the prompt speaks of, as in `SudokuText`.
        tools: Whether the prompt speaks of tools, as in `SudokuText`.
        answers: The right answers, as in `SudokuText`.
        picture: Whether the prompt shows the puzzle as a picture, as in `SudokuText.messages`.

    Raises:
        SudokuError: The seed is negative, the turns are not above 0, or `answers` is unknown.
        BoardError: `generate` refuses an argument.
    """
    wanted = check_answers(answers)
    rows: list[TextRow] = []
    turns = TextRules(max_turns=max_turns).turns(size)
    for k in range(n):
        drawn = row_seed(seed, k)
        puzzle = deal(size, clues, rule, drawn, wanted)[0]
        text = opening(puzzle, turns, tools=tools, answers=wanted, picture=picture)
        rows.append(
            {
                "prompt": [{"role": "user", "content": with_picture(text, puzzle, puzzle) if picture else text}],
                "puzzle": to_string(puzzle),
                "size": size,
                "clues": int((puzzle > 0).sum()),
                "rule": rule,
                "seed": drawn,
            }
        )
    return rows


def row_seed(seed: int, k: int) -> int:
    """The seed of puzzle k in a data set with a seed, below 2⁵³; a `SudokuError` where one of them is negative."""
    if seed < 0 or k < 0:
        raise SudokuError(f"a seed and a position must not be negative, got {seed} and {k}")
    return int(np.random.default_rng([seed, k]).integers(SEEDS))


def deal(
    size: int, clues: int | tuple[int, int] | None, rule: str | None, seed: int, answers: Answers = "one"
) -> tuple[Board, Board]:
    """The puzzle that `generate` makes of a seed, and a solution of it, both uint8 `(n²,)`."""
    if answers == "one" and clues is None and size in DEFAULT_CLUES:
        clues = DEFAULT_CLUES[size]
    drawn = generate(1, size=size, clues=clues, rule=rule, answers=answers, seed=seed)
    return drawn.boards[0], drawn.solutions[0]
