"""Prompts in words, the puzzle inside a prompt, and the texts an answer may be written as."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

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


def build_prompt(board: BoardLike, template: str = "rules") -> str:
    """Describe a puzzle in words.

    Args:
        board: The puzzle, anything that `as_board` takes.
        template: A key of `TEMPLATES`: `rules` (the rules in prose, then the grid), `short` (one sentence and the grid)
            or `compact` (`sudoku 6x6 ` and n² packed symbols).

    Returns:
        A prompt from which `parse_puzzle` reads the same board.

    Raises:
        BoardError: The board is malformed.
        SudokuError: No template has that name.
    """
    if template not in TEMPLATES:
        raise SudokuError(f"unknown prompt template {template!r}; choose one of {list(TEMPLATES)}")
    flat = as_board(board)
    table = geometry(size_of(flat.size))
    return TEMPLATES[template].format(
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
        lettered: Whether a row begins with its letter (A, B, …) and a space, which tells rows apart by token where a
            model has only one-dimensional positions.
    """

    name: str
    lead: str
    cell_break: str
    row_break: str
    lettered: bool = False

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
            if self.lettered and column == 0:
                separator += chr(ord("A") + row) + " "
            parts += [separator, SYMBOLS[digit - 1]]
            length += len(separator) + 1
            offsets.append(length - 1)
        return "".join(parts), offsets


# In the order in which they are tried; `column` suits 16×16, whose letters merge with a space before them.
ANSWER_LAYOUTS: dict[str, AnswerLayout] = {
    layout.name: layout
    for layout in (
        AnswerLayout("spaced", "\n", " ", "\n"),
        AnswerLayout("line", " ", " ", " "),
        AnswerLayout("comma", "\n", ",", "\n"),
        AnswerLayout("packed", "\n", "", "\n"),
        AnswerLayout("column", "\n", "\n", "\n"),
        AnswerLayout("lettered", " ", " ", " ", lettered=True),
    )
}

_SEPARATORS = str.maketrans(dict.fromkeys("|,;/[](){}<>\"'`│┃║", " "))
_RULING = re.compile(r"[\s|+=:\-\u2500-\u257f]*")
_LABEL = re.compile(
    r"\s*+(?:\|\s*+)?(?:(?:row|line)\s*\w{1,2}\b|r\d{1,2}\b|\w{1,2}(?=\s*[:)]))\s*[:)|]?\s*", re.IGNORECASE
)
_ENTRY = re.compile(r"[0-9._xX*-]+")
_ENTRY_WITH_LETTERS = re.compile(r"[0-9A-Ga-g._xX*-]+")
_ENTRY_OF_ITS_OWN = re.compile(r"1[0-6]|[0-9A-Ga-g._xX*-]")
_SIZE_NAME = re.compile(r"\s*(\d+)\s*[xX*]\s*\1\s*")
_BOARD_CELLS = tuple(size * size for size in SIZES)
_SEVERAL_ROWS = 3


@dataclass
class _Row:
    """One line of text that holds nothing but cells; `ruled` when a ruling follows it."""

    line: int
    symbols: list[str]
    ruled: bool = False

    @property
    def width(self) -> int:
        return len(self.symbols)


@dataclass(frozen=True)
class _Grid:
    """n² symbols and the line of text that each of the n rows stands in."""

    symbols: list[str]
    lines: list[int]

    @property
    def where(self) -> str:
        first, last = self.lines[0], self.lines[-1]
        return f"line {first}" if first == last else f"lines {first}-{last}"


def parse_puzzle(text: str) -> Board:
    """Find the one puzzle in a prompt.

    A puzzle is n lines of n entries (also inside a table, a code fence, box rulings or brackets, or behind row labels
    such as `Row 1:`), or n² entries in one line, which may stand amid words. Blanks are `0 _ . x X * -`; entries are
    packed or separated by spaces, tabs, `|`, commas and the like; 16×16 takes 10..16 or A..G. A puzzle may be given
    twice. A grid without any digit is no puzzle, numbers in prose are none either.

    Returns:
        uint8 `(n²,)`, free of clashes; whether it has a solution is not looked at.

    Raises:
        PuzzleParseError: No puzzle, different puzzles, a wrong number of rows or entries, a digit out of range, or the
            same digit twice in a unit. The message names the line, counted from 1.
    """
    near_misses: list[str] = []
    found: list[tuple[_Grid, Board]] = []
    for grid in _grids(text.splitlines(), near_misses):
        board = _to_board(grid)
        if not board.any():
            continue
        if found and not np.array_equal(found[0][1], board):
            raise PuzzleParseError(f"two different puzzles: {found[0][0].where} and {grid.where}; give one")
        found.append((grid, board))
    if not found:
        hint = near_misses[0] if near_misses else "expected n lines of n entries, or n² symbols, for n in 4, 6, 9, 16"
        raise PuzzleParseError(f"no puzzle found: {hint}")
    grid, board = found[0]
    clash = find_conflict(board)
    if clash is not None:
        size = size_of(board.size)
        names = " and ".join(f"line {grid.lines[cell // size]} ({cell_name(cell, size)})" for cell in clash)
        raise PuzzleParseError(f"a contradiction: {SYMBOLS[board[clash[0]] - 1]} stands twice in a unit, {names}")
    return board


def _grids(lines: Sequence[str], near_misses: list[str]) -> Iterator[_Grid]:
    """All grids in order; rows with only rulings and empty lines between them belong together."""
    region: list[_Row] = []
    for number, line in enumerate(lines, start=1):
        symbols = row_symbols(line)
        if symbols is not None and len(symbols) not in _BOARD_CELLS[1:]:
            region.append(_Row(number, symbols))
        elif symbols is None and is_gap(line):
            if region and line.strip():
                region[-1].ruled = True
        else:
            yield from _grids_of_region(region)
            region = []
            yield from line_grids(number, line, symbols, near_misses)
    yield from _grids_of_region(region)


def is_gap(line: str) -> bool:
    """An empty line, a ruling, or one character repeated (`***`, `...`) that is too short or long for a row."""
    mark = line.strip()
    return _RULING.fullmatch(line) is not None or (len(set(mark)) == 1 and mark[0] in BLANKS and len(mark) not in SIZES)


def row_symbols(line: str) -> list[str] | None:
    """The cells of a line that holds nothing else, or None."""
    line = _LABEL.sub("", line.lstrip("> "), count=1) if _LABEL.match(line.lstrip("> ")) else line.lstrip("> ")
    entries = _table_fields(line) or line.translate(_SEPARATORS).split()
    if _SIZE_NAME.fullmatch(line) or not all(map(_ENTRY_WITH_LETTERS.fullmatch, entries)):
        return None
    symbols = _split(entries)
    lettered = any(symbol in SYMBOLS[9:] + SYMBOLS[9:].lower() for symbol in symbols)
    if len(symbols) < (12 if lettered else 3):
        return None
    return None if is_gap(line) and not _table_fields(line) else symbols


def _table_fields(line: str) -> list[str]:
    """The fields of a table row with one cell a field, empty ones as blanks; [] for any other line."""
    line = line.strip()
    if not (line.startswith("|") and line.endswith("|")) or len(line) < 2:
        return []
    fields = [field.strip() for field in line[1:-1].split("|")]
    single = all(field == "" or _ENTRY_OF_ITS_OWN.fullmatch(field) for field in fields) and set(fields) != {"-"}
    return [field or "." for field in fields] if single and len(fields) >= min(SIZES) else []


def _split(entries: Sequence[str]) -> list[str]:
    """One symbol a cell: the entries themselves where they can be numbers up to 16, else their characters."""
    if len(entries) > 9 and all(map(_ENTRY_OF_ITS_OWN.fullmatch, entries)):
        return list(entries)
    return list("".join(entries))


def _grids_of_region(region: list[_Row]) -> Iterator[_Grid]:
    """Cut adjacent rows into grids; fewer than three rows may be 4×4 puzzles of one line each."""
    if len(region) < _SEVERAL_ROWS:
        yield from (_Grid(row.symbols, [row.line] * 4) for row in region if row.width == _BOARD_CELLS[0])
        return
    size, alike = Counter(row.width for row in region).most_common(1)[0]
    heading = region[0].symbols
    if len(region) == size + 1 and region[0].ruled and ("".join(heading) == SYMBOLS[:size] or set(heading) == {"."}):
        region = region[1:]
    symbols = [symbol for row in region for symbol in row.symbols]
    blanks = sum(symbol in BLANKS for symbol in symbols)
    odd = next((row for row in region if row.width != size), None)
    if odd is None and size in SIZES and len(region) % size == 0:
        for start in range(0, len(region), size):
            rows = region[start : start + size]
            yield _Grid([symbol for row in rows for symbol in row.symbols], [row.line for row in rows])
    elif alike >= _SEVERAL_ROWS and 0 < blanks < len(symbols):
        where = f"lines {region[0].line}-{region[-1].line}"
        if odd is not None:
            raise PuzzleParseError(f"line {odd.line}: {odd.width} entries where the rows of {where} have {size}")
        if size not in SIZES:
            raise PuzzleParseError(f"{where}: rows of {size} entries; supported sizes are {SIZES}")
        raise PuzzleParseError(f"{where}: {len(region)} rows of {size} entries; a {size}×{size} puzzle has {size}")


def line_grids(number: int, line: str, row: list[str] | None, near_misses: list[str]) -> Iterator[_Grid]:
    """Puzzles written in one line, alone or amid words."""
    if row is not None:
        yield _Grid(row, [number] * round(len(row) ** 0.5))
        return
    for pattern, counts in ((_ENTRY, _BOARD_CELLS[:-1]), (_ENTRY_WITH_LETTERS, _BOARD_CELLS[-1:])):
        for symbols in _runs(line, pattern, counts):
            digits = [symbol for symbol in symbols if symbol not in BLANKS]
            size = round(len(symbols) ** 0.5)
            if len(symbols) in counts and max((symbol_value(symbol) for symbol in digits), default=0) <= size:
                yield _Grid(symbols, [number] * size)
            elif pattern is _ENTRY and len(symbols) >= 12 and 0 < len(digits) < len(symbols):
                near_misses.append(
                    f"line {number} has {len(symbols)} entries with {max(digits)} as the largest; "
                    f"a puzzle in one line has {', '.join(map(str, _BOARD_CELLS))} with digits up to 4, 6, 9, 16"
                )


def _runs(line: str, pattern: re.Pattern[str], counts: Sequence[int]) -> Iterator[list[str]]:
    """Runs of entries between words; an entry that is a whole board stands for itself."""
    run: list[str] = []
    for entry in [*line.translate(_SEPARATORS).split(), "end"]:
        whole = pattern.fullmatch(entry) is not None and len(entry) in counts
        if pattern.fullmatch(entry) and not whole and entry != "-" and not _SIZE_NAME.fullmatch(entry):
            run.append(entry)
            continue
        if len(run) > 3 and _SIZE_NAME.fullmatch(" ".join(run[:3])) and len(_split(run)) not in counts:
            run = run[3:]
        if run:
            yield _split(run)
        if whole:
            yield list(entry)
        run = []


def symbol_value(symbol: str) -> int:
    """0 for a blank, else the digit."""
    if symbol in BLANKS:
        return 0
    return int(symbol) if symbol.isdigit() else SYMBOLS.index(symbol.upper()) + 1


def _to_board(grid: _Grid) -> Board:
    values = [symbol_value(symbol) for symbol in grid.symbols]
    size = size_of(len(values))
    for cell, value in enumerate(values):
        if value > size:
            where = f"line {grid.lines[cell // size]} ({cell_name(cell, size)})"
            raise PuzzleParseError(f"{where} holds {grid.symbols[cell]}; digits are 1..{size}")
    return np.array(values, dtype=np.uint8)
