"""Prompts in words, the puzzle inside a prompt, and the texts an answer may be written as."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from sudoku_env.answers import check_answers
from sudoku_env.board import (
    BLANKS,
    SIZES,
    SYMBOLS,
    Board,
    BoardLike,
    as_board,
    cell_name,
    find_conflict,
    format_board,
    geometry,
    size_of,
    to_string,
)
from sudoku_env.errors import PuzzleParseError, SudokuError
from sudoku_env.invisible import invisible_characters
from sudoku_env.prompts.grids import (
    BOARD_CELLS,
    Grid,
    Row,
    cut,
    grids_amid_words,
    grids_in,
    row_symbols,
    symbol_value,
    without_heading,
)

DEFAULT_SYSTEM_PROMPT = "You solve Sudoku puzzles. Reply with the completed grid."
DEFAULT_OPENING = "Solution:"

TEMPLATES: dict[str, str] = {
    "rules": (
        "Solve this {n}x{n} Sudoku.\n\n"
        "In the finished grid each of the symbols {symbols} stands exactly once in every row, every column and every "
        "box. A box is {box_rows} rows high and {box_columns} columns wide. A dot is an empty cell.\n\n"
        "The puzzle, one row a line:\n\n{grid}\n\n"
        "Write all {cells} cells of the finished grid, row by row, separated by spaces."
    ),
    "short": "Complete the {n}x{n} Sudoku:\n{grid}",
    "compact": "sudoku {n}x{n} {packed}",
}
ANY_ANSWER: dict[str, str] = {
    "rules": "\n\nThe puzzle may have several solutions; any of them is right.",
    "short": "\nIt may have several solutions; any of them is right.",
    "compact": " any solution",
}
"""What each template says besides where any answer is right."""


def build_prompt(board: BoardLike, template: str = "rules", *, answers: str = "one") -> str:
    """Describe a puzzle in words.

    Args:
        board: The puzzle, anything that `as_board` takes.
        template: A key of `TEMPLATES`: `rules` (the rules in prose, then the grid), `short` (one sentence and the grid)
            or `compact` (`sudoku 6x6 ` and n² packed symbols).
        answers: With "any" the prompt says besides that any solution is right.

    Returns:
        A prompt from which `parse_puzzle` with the same `answers` reads the same board.

    Raises:
        BoardError: The board is malformed.
        SudokuError: No template has that name, or `answers` is unknown.
    """
    if template not in TEMPLATES:
        raise SudokuError(f"unknown prompt template {template!r}; choose one of {list(TEMPLATES)}")
    flat = as_board(board)
    table = geometry(size_of(flat.size))
    words = TEMPLATES[template] + (ANY_ANSWER[template] if check_answers(answers) == "any" else "")
    return words.format(
        n=table.size,
        cells=table.cells,
        box_rows=table.box_rows,
        box_columns=table.box_columns,
        symbols=f"1-{table.size}" if table.size < 10 else f"1-9 and A-{SYMBOLS[table.size - 1]}",
        grid=format_board(flat),
        packed=to_string(flat),
    )


@dataclass(frozen=True)
class AnswerLayout:
    """One way to write a finished grid after the opening sentence.

    Attributes:
        name: Key in `ANSWER_LAYOUTS`.
        lead: What stands between the opening and the first row.
        cell_break: What stands between two cells of a row.
        row_break: What stands between two rows.
        marks: What each row begins with, a character and a space: the first row with the first mark, and so on, further
            rows with the last one. They show where rows begin to a model with one-dimensional positions only.
        prompted: Whether the prompt stands before the answer. Without it the givens in the answer alone say which
            puzzle it is, and a sequence is about half as long.
    """

    name: str
    lead: str
    cell_break: str
    row_break: str
    marks: str = ""
    prompted: bool = True

    def write(self, solution: Board, opening: str) -> tuple[str, list[int]]:
        """The answer text of a full board and the character offset of each of its n² cells.

        White space at the end of the opening gives way to `lead`.
        """
        size = size_of(solution.size)
        parts, offsets = [opening.rstrip()], []
        length = len(parts[0])
        for cell, digit in enumerate(solution.tolist()):
            row, column = divmod(cell, size)
            separator = self.cell_break if column else self.row_break if row else self.lead if length else ""
            if self.marks and column == 0:
                separator += self.marks[min(row, len(self.marks) - 1)] + " "
            parts += [separator, SYMBOLS[digit - 1]]
            length += len(separator) + 1
            offsets.append(length - 1)
        return "".join(parts), offsets


# In the order in which they are tried; `column` suits 16×16, whose letters merge with a space before them. `bare`,
# without a prompt, is never tried: it must be named, by the caller or by the tokenizer.
ANSWER_LAYOUTS: dict[str, AnswerLayout] = {
    layout.name: layout
    for layout in (
        AnswerLayout("spaced", "\n", " ", "\n"),
        AnswerLayout("line", " ", " ", " "),
        AnswerLayout("comma", "\n", ",", "\n"),
        AnswerLayout("packed", "\n", "", "\n"),
        AnswerLayout("column", "\n", "\n", "\n"),
        AnswerLayout("lettered", " ", " ", " ", marks="ABCDEFGHIJKLMNOP"),
        AnswerLayout("bare", " ", " ", " ", marks="|", prompted=False),
    )
}

_SEVERAL_ROWS = 3


def parse_puzzle(text: str, answers: str = "one") -> Board:
    """Find the one puzzle in a prompt.

    A puzzle is n lines of n entries (also inside a table, a code fence, box rulings or brackets, or behind row labels
    such as `Row 1:`), or n² entries in one line, which may stand amid words. Blanks are `0 _ . x X * -`; entries are
    packed or separated by spaces, tabs, `|`, commas and the like; 16×16 takes 10..16 or A..G. A puzzle may be given
    twice. A grid without any digit is no puzzle, numbers in prose are none either. Characters that are not seen
    (zero-width ones, a byte order mark, a soft hyphen) do no harm amid words, and spaces of other widths separate
    entries; where others stand in or at a grid it is not found, and the message names them.

    Args:
        text: The prompt.
        answers: With "any", every solution being right, a grid without any digit is the puzzle where there is no other.

    Returns:
        uint8 `(n²,)`, free of clashes; whether it has a solution is not looked at.

    Raises:
        SudokuError: `answers` is unknown.
        PuzzleParseError: No puzzle, different puzzles, a wrong number of rows or entries, a digit out of range, or the
            same digit twice in a unit. The message names the line, counted from 1, and characters that are not seen by
            code point and position.
        TypeError: It is no text.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a text, got {text!r:.60}")
    try:
        grid, board = _only_grid(text, blank=check_answers(answers) == "any")
    except PuzzleParseError as error:
        raise PuzzleParseError(f"{error}{invisible_characters(text)}") from None
    clash = find_conflict(board)
    if clash is not None:
        size = size_of(board.size)
        names = " and ".join(f"line {grid.lines[cell // size]} ({cell_name(cell, size)})" for cell in clash)
        raise PuzzleParseError(f"a contradiction: {SYMBOLS[board[clash[0]] - 1]} stands twice in a unit, {names}")
    return board


def _only_grid(text: str, blank: bool) -> tuple[Grid, Board]:
    """The one grid in a text and its board; one without a digit only if it may be `blank` and nothing else is there."""
    near_misses: list[str] = []
    found: list[tuple[Grid, Board]] = []
    empty: list[tuple[Grid, Board]] = []
    amid_words = partial(grids_amid_words, near_misses=near_misses)
    for grid in grids_in(text.splitlines(), BOARD_CELLS[1:], row_symbols, _grids_of_block, amid_words):
        board = _to_board(grid)
        if not board.any():
            empty.append((grid, board))
            continue
        if found and not np.array_equal(found[0][1], board):
            raise PuzzleParseError(f"two different puzzles: {found[0][0].where} and {grid.where}; give one")
        found.append((grid, board))
    if blank and not found:
        found = empty
        if len({board.size for _, board in found}) > 1:
            raise PuzzleParseError("blank grids of different sizes; give one")
    if not found:
        hint = near_misses[0] if near_misses else "expected n lines of n entries, or n² symbols, for n in 4, 6, 9, 16"
        raise PuzzleParseError(f"no puzzle found: {hint}")
    return found[0]


def _grids_of_block(block: list[Row]) -> Iterator[Grid]:
    """Cut a block of rows into grids; fewer than three rows may be 4×4 puzzles of one line each."""
    if len(block) < _SEVERAL_ROWS:
        yield from (Grid(row.symbols, [row.line] * 4) for row in block if len(row.symbols) == BOARD_CELLS[0])
        return
    size, alike = Counter(len(row.symbols) for row in block).most_common(1)[0]
    rows = without_heading(block, size)
    grids = cut(rows, size) if size in SIZES else None
    symbols = [symbol for row in rows for symbol in row.symbols]
    if grids is not None:
        yield from grids
    elif alike >= _SEVERAL_ROWS and 0 < sum(symbol in BLANKS for symbol in symbols) < len(symbols):
        where = f"lines {rows[0].line}-{rows[-1].line}"
        odd = next((row for row in rows if len(row.symbols) != size), None)
        if odd is not None:
            raise PuzzleParseError(f"line {odd.line}: {len(odd.symbols)} entries where the rows of {where} have {size}")
        if size not in SIZES:
            raise PuzzleParseError(f"{where}: rows of {size} entries; supported sizes are {SIZES}")
        raise PuzzleParseError(f"{where}: {len(rows)} rows of {size} entries; a {size}×{size} puzzle has {size}")


def _to_board(grid: Grid) -> Board:
    values = [symbol_value(symbol) for symbol in grid.symbols]
    size = size_of(len(values))
    for cell, value in enumerate(values):
        if value > size:
            where = f"line {grid.lines[cell // size]} ({cell_name(cell, size)})"
            raise PuzzleParseError(f"{where} holds {grid.symbols[cell]}; digits are 1..{size}")
    return np.array(values, dtype=np.uint8)
