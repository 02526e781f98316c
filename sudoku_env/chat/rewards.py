"""Verifiable rewards for answers in the form of `sudoku_env.chat.rows`, as trainers of language models call them.

A reward function takes `prompts`, `completions` and the columns of the data set as keyword arguments, each a list with
an entry for each sample, and returns a list of floats. A completion is a text, or chat messages of which the last
counts. Rewards lie in [0, 1], and no text that a model writes raises.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sudoku_env.board import as_board, size_of
from sudoku_env.chat.rows import REASONING_TAGS, RESPONSE_TAGS
from sudoku_env.errors import SudokuError
from sudoku_env.prompts.scoring import Score, read_answer, score_answer

Completion = str | Sequence[Mapping[str, Any]] | None
Column = Sequence[str]

_TAG = re.compile("({}|{}|{}|{})".format(*REASONING_TAGS, *RESPONSE_TAGS))
_CONCLUSION = re.compile(r"\bso row ([0-9]{1,2}), column ([0-9]{1,2}) is ([0-9]{1,2})\b")


def format_reward(
    prompts: Sequence[Any], completions: Sequence[Completion], puzzle: Column, **columns: object
) -> list[float]:
    """1.0 where an answer is reasoning and a full board, each once and in its tags, with nothing around them.

    Whether the digits are right is not looked at.

    Args:
        prompts: Prompts that trainers pass, not read.
        completions: Completions, one for each sample.
        puzzle: Column of puzzles, which tell the size.
        columns: The other columns, not read.

    Raises:
        SudokuError: The lists differ in length.
        BoardError: A puzzle is malformed.
        TypeError: A message's content is neither text nor None.
    """
    _check_lengths(completions, puzzle=puzzle)
    return [
        float(_is_formatted(completion_text(completion), size_of(as_board(board).size)))
        for completion, board in zip(completions, puzzle, strict=True)
    ]


def cells_reward(
    prompts: Sequence[Any], completions: Sequence[Completion], puzzle: Column, solution: Column, **columns: object
) -> list[float]:
    """The share of the puzzle's blanks that the response's board fills rightly; 0.0 without a response or a board.

    The response is what follows the last `<RESPONSE>`, up to its end tag if there is one; its board is found as by
    `read_answer`.

    Args:
        prompts: Prompts that trainers pass, not read.
        completions: Completions, one for each sample.
        puzzle: Column of puzzles.
        solution: Column of their solutions.
        columns: The other columns, not read.

    Raises:
        SudokuError: The lists differ in length.
        BoardError: `score_answer` refuses a puzzle or its solution.
        TypeError: A message's content is neither text nor None.
    """
    return [score.per_cell for score in _scores(completions, puzzle, solution)]


def exact_reward(
    prompts: Sequence[Any], completions: Sequence[Completion], puzzle: Column, solution: Column, **columns: object
) -> list[float]:
    """1.0 where the response's board is the solution; the rest as for `cells_reward`."""
    return [score.exact for score in _scores(completions, puzzle, solution)]


def givens_reward(
    prompts: Sequence[Any], completions: Sequence[Completion], puzzle: Column, solution: Column, **columns: object
) -> list[float]:
    """The share of the puzzle's own digits that the response's board keeps; the rest as for `cells_reward`."""
    return [score.givens for score in _scores(completions, puzzle, solution)]


def reasoning_reward(
    prompts: Sequence[Any], completions: Sequence[Completion], puzzle: Column, solution: Column, **columns: object
) -> list[float]:
    """The share of the puzzle's blanks that the reasoning concludes rightly and never wrongly.

    A conclusion is `so row r, column c is d`, as the steps of `explain` end, in what follows the last `<REASONING>` up
    to its end tag. This is the reward for a verifiable part that holds the reasoning alone (docs/vapor.md).
    The arguments and errors are those of `cells_reward`.
    """
    _check_lengths(completions, puzzle=puzzle, solution=solution)
    return [
        _reasoning_share(completion_text(completion), board, right)
        for completion, board, right in zip(completions, puzzle, solution, strict=True)
    ]


def completion_text(completion: Completion) -> str:
    """The text of a completion: itself, or the content of its last message; empty for None or no message.

    Raises:
        TypeError: The content is something else, such as a list of parts.
    """
    if completion is None or isinstance(completion, str):
        return completion or ""
    content = completion[-1].get("content") if completion else None
    if content is not None and not isinstance(content, str):
        raise TypeError(f"a message's content must be a text or None, got {content!r}; join its parts to one text")
    return content or ""


def _scores(completions: Sequence[Completion], puzzle: Column, solution: Column) -> list[Score]:
    _check_lengths(completions, puzzle=puzzle, solution=solution)
    return [
        score_answer(_section(completion_text(completion), RESPONSE_TAGS), board, right)
        for completion, board, right in zip(completions, puzzle, solution, strict=True)
    ]


def _section(text: str, tags: tuple[str, str]) -> str | None:
    """What follows the last start tag, up to the end tag or the end of the text; None without a start tag."""
    _, start, rest = text.rpartition(tags[0])
    return rest.partition(tags[1])[0] if start else None


def _is_formatted(text: str, size: int) -> bool:
    pieces = _TAG.split(text)
    if pieces[1::2] != [*REASONING_TAGS, *RESPONSE_TAGS]:
        return False
    before, reasoning, between, response, behind = pieces[::2]
    if before.strip() or between.strip() or behind.strip():
        return False
    return bool(reasoning.strip()) and read_answer(response, size) is not None


def _reasoning_share(text: str, puzzle: str, solution: str) -> float:
    score_answer(None, puzzle, solution)  # checks both
    board, right = as_board(puzzle), as_board(solution)
    size = size_of(board.size)
    concluded: dict[tuple[int, int], set[int]] = {}
    for row, column, digit in _CONCLUSION.findall(_section(text, REASONING_TAGS) or ""):
        concluded.setdefault((int(row) - 1, int(column) - 1), set()).add(int(digit))
    blanks = np.flatnonzero(board == 0).tolist()
    return sum(concluded.get(divmod(cell, size)) == {int(right[cell])} for cell in blanks) / len(blanks)


def _check_lengths(completions: Sequence[Completion], **columns: Column) -> None:
    for name, values in columns.items():
        if len(values) != len(completions):
            raise SudokuError(
                f"{len(completions)} completions but {len(values)} values of {name!r}; give one for each completion"
            )
