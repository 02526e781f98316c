"""Scores of an answer in free text, for reward functions: one call, and no text that a model writes raises."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from sudoku_env.answers import REMEDY, Answers, check_answers, solutions_to_count
from sudoku_env.board import SYMBOLS, Board, BoardLike, as_board, conflicts, is_solved, size_of
from sudoku_env.errors import BoardError
from sudoku_env.prompts.grids import (
    Grid,
    Row,
    cut,
    grids_amid_words,
    grids_in,
    row_symbols,
    symbol_value,
    without_heading,
)
from sudoku_env.solver import solve_batch

_ANSWER_TAG = re.compile(r"<answer>", re.IGNORECASE)
_ANSWER_END = re.compile(r"</answer>", re.IGNORECASE)
_BLANK_RUN = re.compile(r"[^\S\n]+")
_TAG = re.compile(r"</?[A-Za-z|][^<>\n]{0,40}>")
_COLON = re.compile(r"(?<=[A-Za-z]{3}):")
_MARKER = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)])\s")
_TYPESETTING = re.compile(r"\\\\|\\hline|\\quad|\\[,;! ]|[&$]|(?<!\*)\*\*(?!\*)")
_FULL_STOP = re.compile(r"(?<=[0-9A-Ga-g])[.!](?=\s|$)")


@dataclass(frozen=True, eq=False)
class Score:
    """How good an answer is; the numbers, all in [0, 1], can serve as rewards as they are.

    Attributes:
        exact: 1.0 if the answer is the solution, or any of several where each is right, else 0.0.
        per_cell: Share of the puzzle's blank cells in which the answer has the solution's digit; where any answer is
            right, a digit that stands in no peer, the puzzle's own digits being where they belong.
        format: 1.0 if a full board could be read, else 0.0, and then the other numbers are 0.0 too.
        givens: Share of the puzzle's own digits that stand in the answer unchanged.
        board: uint8 `(n²,)`, the board that was read, or None.
    """

    exact: float
    per_cell: float
    format: float
    givens: float
    board: Board | None


def score_answer(
    text: str | None, puzzle: BoardLike, solution: BoardLike | None = None, *, answers: str = "one"
) -> Score:
    """Score the answer to a puzzle that is written in a text.

    The answer is the board that `read_answer` finds, so what it says about layouts and about several boards holds here.

    Args:
        text: What a model wrote: any text at all; None, as chat messages without content have it, is no answer.
        puzzle: Anything that `as_board` takes, with one solution and at least one blank.
        solution: The solution, if it is known; it is then trusted to be the only one. None solves the puzzle.
        answers: "any": the puzzle may have several solutions, each of which is right; none is then passed.

    Raises:
        BoardError: About puzzle and solution, never about the text: a puzzle with no or more than one solution or
            without a blank, or a solution that is no full board without clashes, changes the puzzle's digits or comes
            with `answers="any"`.
        SudokuError: `answers` is unknown.
    """
    start, right = puzzle_and_solution(puzzle, solution, answers)
    blank = start == 0
    board = read_answer(text or "", size_of(start.size))
    if board is None:
        return Score(exact=0.0, per_cell=0.0, format=0.0, givens=0.0, board=None)
    filled = right_cells(board, start, right)[blank]
    kept = (board == start)[~blank]
    return Score(
        exact=float(filled.all() and kept.all()),
        per_cell=float(filled.mean()),
        format=1.0,
        givens=float(kept.mean()) if len(kept) else 1.0,
        board=board,
    )


def puzzle_and_solution(
    puzzle: BoardLike, solution: BoardLike | None, answers: str = "one"
) -> tuple[Board, Board | None]:
    """What an answer is scored by, both uint8 `(n²,)`; the arguments and errors are those of `score_answer`.

    Returns:
        The puzzle and its only solution, which is None where any answer is right.
    """
    start, wanted = as_board(puzzle), check_answers(answers)
    if wanted == "any" and solution is not None:
        raise BoardError('solution is for answers="one"; with answers="any" leave it out, any solution is right')
    right = _right_solution(start, wanted) if solution is None else _checked_solution(start, solution)
    if start.all():
        raise BoardError("the puzzle has no blank; there is nothing to score")
    return start, right if wanted == "one" else None


def right_cells(board: Board, puzzle: Board, solution: Board | None) -> NDArray[np.bool_]:
    """bool `(n²,)`: the blanks of a puzzle that a board fills rightly, as `Score.per_cell` counts them.

    They are all of them if the board, with the puzzle's digits in its own places, is a solution, and only then.

    Args:
        board: uint8 `(n²,)`, an answer, 0 for a blank.
        puzzle: uint8 `(n²,)`.
        solution: uint8 `(n²,)`, the only solution; None where any is right.
    """
    if solution is not None:
        return (board == solution) & (puzzle == 0)
    whole = np.where(puzzle > 0, puzzle, board)
    return (whole > 0) & (puzzle == 0) & ~conflicts(whole[None])[0]


def read_answer(text: str, size: int) -> Board | None:
    """The last full board of a size in a text, or None.

    Where the text has an `<answer>` tag, only what stands between the last one and its end tag (or the end of the text)
    is read. A board is n lines of n cells, n² cells in one line (also amid words), or one cell a line; cells are packed
    or separated by spaces, `|`, commas, brackets and the like, with rulings or empty lines anywhere between the rows,
    row labels or list markers before them, a heading of column numbers above a ruling, in a code fence, a table or a
    LaTeX array; special tokens such as `<|eot_id|>` do not matter. 16×16 takes 10..16 or A..G. The answer layouts of
    `pre_fill` are all among these forms.

    A full board has an ASCII digit from 1 to n in every cell; whether digits clash is not looked at. A board with a
    blank, such as the puzzle repeated, is passed over. Rows with a wrong number of cells, and a wrong number of rows,
    make no board; k · n rows are k boards.

    Args:
        text: Any text.
        size: n.

    Returns:
        uint8 `(n²,)`, a new array, or None.
    """
    full = [board for board in _boards(text, size) if board.all()]
    return full[-1] if full else None


def read_progress(text: str, puzzle: Board) -> Board | None:
    """The last full board in a text as `read_answer` finds it; else the last with blanks that is not the puzzle itself.

    It is a new array, uint8 `(n²,)` as the puzzle, with 0 for a blank.
    """
    boards = [board for board in _boards(text, size_of(puzzle.size)) if not np.array_equal(board, puzzle)]
    full = [board for board in boards if board.all()]
    found = full or boards
    return found[-1] if found else None


def _boards(text: str, size: int) -> Iterator[Board]:
    """The boards in the part of a text that counts, in order, with 0 for a blank."""
    if behind_tag := max((tag.end() for tag in _ANSWER_TAG.finditer(text)), default=0):
        text = _ANSWER_END.split(text[behind_tag:], maxsplit=1)[0]
    for pattern in (_BLANK_RUN, _TAG, _COLON, _TYPESETTING):
        text = pattern.sub(" ", text)
    lines = _join_columns(_split_lettered(text, size), size)
    row, block, words = partial(_cells, size=size), partial(_grids_of_block, size=size), partial(_amid_words, size=size)
    for grid in grids_in(lines, (size * size,), row, block, words):
        values = [symbol_value(symbol) for symbol in grid.symbols]
        if max(values) <= size:
            yield np.array(values, dtype=np.uint8)


def _amid_words(number: int, line: str, size: int) -> Iterator[Grid]:
    """The grids of n² cells in a line of words."""
    grids = grids_amid_words(number, _FULL_STOP.sub(" ", line))
    return (grid for grid in grids if len(grid.symbols) == size * size)


def _grids_of_block(block: list[Row], size: int) -> Iterator[Grid]:
    """Cut rows into grids: all of them if that works out, else each stretch without an empty line by itself."""
    grids = cut(without_heading(block, size), size)
    if grids is not None:
        yield from grids
        return
    stretch: list[Row] = []
    for row in block:
        stretch.append(row)
        if row.gapped or row is block[-1]:
            yield from cut(without_heading(stretch, size), size) or []
            stretch = []


def _cells(line: str, size: int) -> list[str] | None:
    """The cells of a line that holds nothing else; less a full stop or list marker where that makes a row or board."""
    wanted = (size, size * size)
    symbols = row_symbols(line)
    if symbols is None or len(symbols) not in wanted:
        for version in (_FULL_STOP.sub(" ", line), _MARKER.sub(" ", line)):
            cells = None if version == line else row_symbols(version)
            if cells is not None and len(cells) in wanted:
                return cells
    return symbols


def _split_lettered(text: str, size: int) -> str:
    """Rows behind their letters (`A 1 2 3 4 B 3 4 1 2 …`) as lines of their own, without the letters."""
    rows = [rf"{chr(ord('A') + row)}((?:\s+[{SYMBOLS[:size]}]){{{size}}})" for row in range(size)]
    return re.sub(
        r"(?<!\S)" + r"\s+".join(rows) + r"(?!\S)",
        lambda match: "\n" + "\n".join(" ".join(row.split()) for row in match.groups()) + "\n",
        text,
    )


def _join_columns(text: str, size: int) -> list[str]:
    """The lines of a text, where n² lines of one cell each (or a multiple) are joined to lines of n² cells."""
    names = {*SYMBOLS[:size], *map(str, range(1, size + 1))}
    joined: list[str] = []
    for is_column, run in groupby(text.splitlines(), lambda line: line.strip() in names):
        lines = list(run)
        step = size * size if is_column and len(lines) % (size * size) == 0 else 1
        joined += [" ".join(lines[start : start + step]) for start in range(0, len(lines), step)]
    return joined


def _right_solution(puzzle: Board, answers: Answers) -> Board:
    solutions, counts = solve_batch(puzzle[None], limit=solutions_to_count(answers))
    if counts[0] == 0:
        raise BoardError("the puzzle has no solution; only a puzzle with one can be scored")
    if counts[0] > 1:
        raise BoardError(f"the puzzle has more than one solution; only a puzzle with one can be scored, or {REMEDY}")
    return solutions[0]


def _checked_solution(puzzle: Board, solution: BoardLike) -> Board:
    right = as_board(solution, size_of(puzzle.size))
    if not is_solved(right):
        raise BoardError("the solution is not a full board without clashes; pass None to have the puzzle solved")
    if ((puzzle > 0) & (puzzle != right)).any():
        raise BoardError("the solution changes a digit of the puzzle; pass the one that belongs to it")
    return right
