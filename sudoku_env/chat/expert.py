"""Games that the ladder plays through tool calls, as conversations to learn from."""

from typing import Any, TypedDict

import numpy as np

from sudoku_env.chat.moves import PARAMETERS, Move
from sudoku_env.chat.text_env import SudokuText
from sudoku_env.chat.text_rows import TextRow, text_rows
from sudoku_env.errors import SudokuError
from sudoku_env.explanation import iterate_steps


class ToolCallMessage(TypedDict, total=False):
    """A message of a conversation with tools, in the form that chat templates take.

    Attributes:
        role: "assistant" or "tool".
        content: What is said before the call, or the result.
        tool_calls: The calls of the assistant, `{"type": "function", "function": {"name": …, "arguments": {…}}}`.
    """

    role: str
    content: str
    tool_calls: list[dict[str, Any]]


class ExpertRow(TextRow):
    """A row of `text_rows(..., tools=True)` with the game that the ladder plays.

    Attributes:
        completion: The messages after the prompt: a call, of `place` or `hint`, and its result in turn; the last call
            ends it.
    """

    completion: list[ToolCallMessage]


def expert_rows(
    n: int,
    *,
    size: int = 9,
    clues: int | tuple[int, int] | None = None,
    rule: str | None = None,
    seed: int = 0,
    reasons: bool = True,
    hints: float = 0.0,
) -> list[ExpertRow]:
    """Games that the ladder of rules solves, easiest step first; row k depends on the seed, k, size, clues and rule.

    Args:
        n: Number of rows.
        size: Board size.
        clues: Number of givens or a range of it, as in `SudokuText`.
        rule: The hardest rule that a puzzle may need, as in `generate`.
        seed: Any non-negative integer.
        reasons: Whether each digit stands behind the steps that it follows from, in words; else the call stands alone.
        hints: The share of digits before which the player asks for a hint, drawn at random; so a model learns what
            asking is like.

    Raises:
        SudokuError: The seed is negative, or the share of hints not between 0 and 1.
        BoardError: `generate` refuses an argument.
    """
    if not 0 <= hints <= 1:
        raise SudokuError(f"hints must be a share from 0 to 1, got {hints!r}")
    rows = text_rows(n, size=size, clues=clues, rule=rule, seed=seed, tools=True)
    return [{**row, "completion": _played(row, reasons, hints)} for row in rows]


def _played(row: TextRow, reasons: bool, hints: float) -> list[ToolCallMessage]:
    """The messages of a game; the result of the last call is left out, as no turn follows it."""
    draws = np.random.default_rng(row["seed"])
    game = SudokuText(size=row["size"], tools=True)
    game.reset(options={"puzzle": row["puzzle"]})
    messages: list[ToolCallMessage] = []
    said: list[str] = []
    for step in list(iterate_steps(game.info()["puzzle"], "backbone")):
        said.append(str(step))
        if step.cell is None or step.digit is None:
            continue
        if draws.random() < hints:
            messages += [_turn(Move("hint"), ""), {"role": "tool", "content": game.hint()}]
        move = Move("place", (int(step.cell) // game.size + 1, int(step.cell) % game.size + 1, int(step.digit)))
        messages.append(_turn(move, " ".join(said) if reasons else ""))
        messages.append({"role": "tool", "content": game.place(*move.numbers)})
        said = []
    return messages[:-1]


def _turn(move: Move, content: str) -> ToolCallMessage:
    """A turn of the player that makes a move behind some words."""
    call = {"name": move.name, "arguments": dict(zip(PARAMETERS[move.name], move.numbers, strict=True))}
    return {"role": "assistant", "content": content, "tool_calls": [{"type": "function", "function": call}]}
