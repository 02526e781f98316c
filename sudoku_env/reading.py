"""The reader of puzzles: what a file, an argument or standard input holds, in the forms that people keep.

A text is a table with a header (CSV, tabs or semicolons), JSON, or lines: whole boards, alone or with other fields, or
rows of a grid with rulings, comments behind `#` and titles between them. Its form says which; where two readings fit,
it is refused, and the message names the argument that tells them apart.
"""

import csv
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np

from sudoku_env.board import (
    BLANKS,
    SIZES,
    SYMBOLS,
    Board,
    cell_name,
    cells_of,
    check_no_clash,
    conflicts,
    geometry,
    is_ruling,
    is_valid,
    parse_board,
    plain_text,
    size_of,
)
from sudoku_env.errors import BoardError, PuzzleParseError, SudokuError

DIGITS = {"1-G": SYMBOLS, "0-F": "0123456789ABCDEF", "A-P": "ABCDEFGHIJKLMNOP"}
"""What digits are written as, by name: the first n characters."""
PUZZLE_COLUMNS = "puzzle puzzles quizzes quiz question questions board sudoku grid unsolved prompt".split()
SOLUTION_COLUMNS = "solution solutions answer answers solved".split()
TIER_COLUMN = "tier"
WANTED = (
    "give cells row by row with dots for blanks (53..7….), a file of such lines or of grids, CSV with a column puzzle, "
    "or JSON"
)
_CELLS = [n * n for n in SIZES]
_PACKED = {
    cells: re.compile(rf"[{symbols}{BLANKS.replace('-', '')}-]+", re.IGNORECASE)
    for cells, symbols in zip(_CELLS, ("1-4", "1-6", "1-9A-I", "1-9A-P"), strict=True)
}
_FIELDS = re.compile(r"[\s,;:|\"'=<>()\[\]{}]+")
_TITLE = re.compile(r"\W*(the\s+)?(grid|puzzle|sudoku|board|game|level|nr|no)\b.{0,60}", re.IGNORECASE)
_SECTION = re.compile(r"\s*\[(\w+)\]\s*")
_AT_A_TIME = 4096
_SHOWN = 60
"""Characters of a line that a message shows."""


@dataclass(frozen=True, eq=False)
class BoardList:
    """What was read.

    Attributes:
        boards: uint8 `(n²,)` each, free of clashes; they may be of different sizes.
        solutions: The solution that stands beside each puzzle, checked against it, or None.
        places: Where each stands, e.g. "line 7".
        symbols: What the digits 1, 2, … are written as.
        columns: Names of the columns of puzzles and of solutions, where there are such.
        faults: What was left out and why, by `skip_bad`.
    """

    boards: list[Board]
    solutions: list[Board | None]
    places: list[str]
    symbols: str
    columns: list[str]
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        sizes = [size_of(board.size) for board in self.boards]
        kinds = " and ".join(f"{n}×{n}" for n in sorted(set(sizes)))
        told = f"{len(sizes):,} puzzle{'s' * (len(sizes) > 1)} of {kinds}"
        if self.columns:
            told += f" from column {self.columns[0]}"
        if given := sum(solution is not None for solution in self.solutions):
            told += f", {given:,} with a solution that fits"
        if self.symbols != SYMBOLS:
            told += f", in digits {self.symbols[0]}-{self.symbols[max(sizes) - 1]}"
        return told + (f"; {len(self.faults):,} left out" if self.faults else "")

    @property
    def stacked(self) -> Board:
        """The boards, uint8 `(N, n²)`.

        Raises:
            PuzzleParseError: They are of different sizes.
        """
        first = self.boards[0].size
        for board, place in zip(self.boards, self.places, strict=True):
            if board.size != first:
                raise PuzzleParseError(f"{place} holds {board.size} cells and {self.places[0]} {first}; give size=")
        return np.stack(self.boards)


@dataclass
class _Record:
    """A puzzle as it is written, or what is wrong with what stands in its place."""

    place: str
    puzzle: str = ""
    solution: str = ""
    fault: str = ""


def read_boards(
    path: str | Path | Traversable,
    *,
    size: int | None = None,
    symbols: str | None = None,
    tier: str | None = None,
    skip_bad: bool = False,
) -> BoardList:
    """Read the puzzles of a file.

    Read are, in UTF-8 or UTF-16: lines of whole boards, also with a name, a rating or a solution beside them (.sdm,
    the exchange bank's `hash puzzle rating`); grids of n rows, with rulings, `#` comments and titles (.sdk, .ss);
    CSV with a header, in which a column puzzle, quizzes, question, board … is looked for, in any case, and one named
    solution, answer …; and JSON, whole or a line each, with such keys or as lists. A column or key `prompt` holds the
    puzzle in words.

    Args:
        path: The file.
        size: The size of all boards; None takes it from their cells.
        symbols: "1-G", "0-F" or "A-P": the characters of the digits; None looks which fit.
        tier: Only the rows with this text in the column `tier`.
        skip_bad: Leave out what is malformed, and say so in `faults`; else it is an error.

    Raises:
        OSError: There is no such file, or it is a folder.
        PuzzleParseError: It holds no puzzle; one is malformed, has a digit twice in a unit, or a solution that does not
            fit; or two readings fit. The message names the file, the line, and the column that was looked for.
    """
    file = Path(path) if isinstance(path, str) else path
    if file.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    return boards_in(file.read_bytes(), str(path), size=size, symbols=symbols, tier=tier, skip_bad=skip_bad)


def boards_in(
    content: str | bytes,
    name: str,
    *,
    size: int | None = None,
    symbols: str | None = None,
    tier: str | None = None,
    skip_bad: bool = False,
) -> BoardList:
    """Read the puzzles of a text, as `read_boards` does those of a file, whose `name` messages begin with."""
    text = content if isinstance(content, str) else _decoded(content, name)
    columns: list[str] = []
    records = list(_records(text.removeprefix("\ufeff"), size, tier, columns, name))
    if symbols is not None and symbols not in DIGITS:
        raise PuzzleParseError(f"symbols={symbols!r} is unknown; choose one of {', '.join(DIGITS)}")
    written = DIGITS[symbols] if symbols else _symbols_of([one.puzzle for one in records if one.puzzle], name)
    found, faults = BoardList([], [], [], written, columns), dict[int, str]()
    boards: dict[int, Board] = {}
    solutions: dict[int, Board] = {}
    for number, record in enumerate(records):
        try:
            boards[number] = _board_of(record, size, written, columns)
            if record.solution:
                solutions[number] = _solution_of(record, boards[number], written)
        except SudokuError as error:
            faults[number] = str(error)
    for number in _clashing(solutions):
        faults[number] = "the solution beside the puzzle has a digit twice in a unit; mend it or drop it"
    for number in _clashing(boards):
        try:
            check_no_clash(boards[number])
        except BoardError as error:
            faults[number] = str(error)
    for number, record in enumerate(records):
        if number not in faults:
            found.boards.append(boards[number])
            found.solutions.append(solutions.get(number))
            found.places.append(record.place)
            continue
        place = f", {record.place}" if record.place and ("\n" in text or columns) else ""
        found.faults.append(f"{name}{place}: {faults[number]}")
        if not skip_bad:
            break
    if not found.boards or (found.faults and not skip_bad):
        raise PuzzleParseError(found.faults[0] if found.faults else f"{name} holds no puzzle; {WANTED}")
    return found


def _clashing(boards: dict[int, Board]) -> Iterator[int]:
    """The numbers of the boards that have a digit twice in a unit."""
    for cells in _CELLS:
        alike = [number for number, board in boards.items() if board.size == cells]
        for start in range(0, len(alike), _AT_A_TIME):
            part = alike[start : start + _AT_A_TIME]
            yield from np.array(part)[conflicts(np.stack([boards[number] for number in part])).any(1)].tolist()


def _decoded(content: bytes, name: str) -> str:
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PuzzleParseError(
            f"{name}, line {line}: no text in UTF-8 ({error.reason} at byte {error.start + 1}); save it as text"
        ) from None


def _board_of(record: _Record, size: int | None, symbols: str, columns: list[str]) -> Board:
    if record.fault:
        raise PuzzleParseError(record.fault)
    if columns[:1] == ["prompt"]:
        from sudoku_env.prompts.text import parse_puzzle

        return parse_puzzle(record.puzzle, "any")
    return parse_board(record.puzzle, size, symbols=symbols)


def _solution_of(record: _Record, board: Board, symbols: str) -> Board:
    """The solution beside a puzzle; clashes in it are not looked for."""
    size = size_of(board.size)
    try:
        solution = parse_board(record.solution, size, symbols=symbols)
    except BoardError as error:
        raise BoardError(f"the solution beside the puzzle: {error}") from None
    for cell in np.flatnonzero((board != solution) & ((board > 0) | (solution == 0)))[:1].tolist():
        digits = [symbols[digit - 1] if digit else "blank" for digit in (solution[cell], board[cell])]
        raise BoardError(
            f"the solution beside the puzzle is not its: {cell_name(cell, size)} is {digits[0]} in it and "
            f"{digits[1]} in the puzzle"
        )
    return solution


def _symbols_of(texts: Sequence[str], name: str) -> str:
    """What digits are written as, from all puzzles of a text."""
    counts = {len(text.split()) if " " in text else len(text) for text in texts}
    if len(counts) != 1 or (cells := counts.pop()) not in _CELLS:
        return SYMBOLS
    size = size_of(cells)
    marks = {mark.upper() for text in texts for mark in (text.split() if " " in text else set(text))}
    digits = marks - set(BLANKS.upper()) | marks & {"0"}
    plain, zero, letters = (symbols[:size] for symbols in DIGITS.values())
    last = {plain[-1], str(size)} & marks
    fit = [SYMBOLS]
    if digits and all(mark in letters for mark in digits):
        fit = [SYMBOLS, DIGITS["A-P"]]
    elif not last and ("0" in marks or (size == 16 and digits >= set(zero[1:]))):
        fit = [SYMBOLS, DIGITS["0-F"]]
    if len(fit) > 1:
        fit = [symbols for symbols in fit if all(_fits(text, symbols) for text in texts)] or [SYMBOLS]
    if len(fit) > 1:
        first, second = (next(key for key in DIGITS if DIGITS[key] == symbols) for symbols in fit)
        raise PuzzleParseError(
            f"{name}: these {size}×{size} cells can be read in digits {first} and in digits {second}; "
            f"say which by --symbols {first} or --symbols {second} (in Python symbols=)"
        )
    return fit[0]


def _fits(text: str, symbols: str) -> bool:
    try:
        return is_valid(parse_board(text, symbols=symbols))
    except BoardError:
        return False


# From a text to records


@dataclass(frozen=True)
class _Row:
    """A line of nothing but cells, or of nothing."""

    number: int
    cells: list[str]


_BREAK = _Record("")
"""Where no grid goes on."""


def _records(text: str, size: int | None, tier: str | None, columns: list[str], name: str) -> Iterator[_Record]:
    """The records of a text; `columns` gets the names of the columns that they are from."""
    if re.match(r"\s*(\{|\[(?!\w+\]))", text):
        return _json_records(text, size, tier, columns)
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            delimiter = next((mark for mark in "\t;," if mark in line), ",")
            names = [one.strip().lower() for one in next(csv.reader([line], delimiter=delimiter))]
            below = next((rest for rest in lines[number + 1 :] if rest.strip()), "")
            known = any(one in PUZZLE_COLUMNS for one in names) and (len(names) > 1 or bool(_wholes(below)))
            if known or (len(names) > 1 and not _wholes(line) and all(re.match(r"[a-z]\w+$", one) for one in names)):
                return _table_records(lines[number + 1 :], names, delimiter, number + 1, tier, columns)
            break
    if tier is not None:
        raise PuzzleParseError(f"{name}: no column {TIER_COLUMN!r} to choose tier {tier!r} by; leave tier out")
    return _line_records(lines, size, name)


def _columns_of(names: Sequence[str], columns: list[str]) -> str:
    """What is wrong with the names of columns, "" where the first of `columns` becomes that of puzzles."""
    puzzles = [one for one in names if one in PUZZLE_COLUMNS]
    if len(puzzles) != 1:
        what = f"no column of puzzles ({', '.join(PUZZLE_COLUMNS)})" if not puzzles else f"columns {puzzles}, not one,"
        return f"{what} among {list(names)}; name the right one puzzle"
    columns[:] = [*puzzles, *[one for one in names if one in SOLUTION_COLUMNS][:1]]
    return ""


def _table_records(
    lines: list[str], names: list[str], delimiter: str, above: int, tier: str | None, columns: list[str]
) -> Iterator[_Record]:
    if fault := _columns_of(names, columns):
        yield _Record(f"line {above}", fault=fault)
        return
    csv.field_size_limit(sys.maxsize)
    reader = csv.DictReader(io.StringIO("\n".join(lines), newline=""), names, delimiter=delimiter, strict=True)
    tiers: set[str] = set()
    taken, begin = False, above + 1
    try:
        for row in reader:
            place, begin = f"line {begin}, column {columns[0]}", above + reader.line_num + 1
            if tier is not None:
                tiers.add(str(row.get(TIER_COLUMN)))
                if row.get(TIER_COLUMN) != tier:
                    continue
            taken = True
            yield _record_of(place, row, columns)
    except csv.Error as error:
        yield _Record(f"line {begin}", fault=f"not CSV ({error}); close each quotation mark")
    if tier is not None and not taken:
        yield _Record("", fault=f"no puzzle of tier {tier!r}; there are {sorted(tiers)}")


def _record_of(place: str, row: dict[Any, Any], columns: list[str]) -> _Record:
    puzzle, *beside = (_board_text(row.get(column)) for column in columns)
    if puzzle is None or not puzzle.strip():
        return _Record(place, fault=f"{str(row.get(columns[0]))[:_SHOWN]!r} is no puzzle; {WANTED}")
    return _Record(place, puzzle.strip(), (beside[0] or "").strip() if beside else "")


def _board_text(value: Any) -> str | None:
    """The text of a value that holds one board: a text, n² entries or n rows; None for any other."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(row, list) for row in value):
        value = [cell for row in value for cell in row] if {len(row) for row in value} == {len(value)} else None
    if value is None or len(value) not in _CELLS or not all(isinstance(cell, int | str | None) for cell in value):
        return None
    cells = ["." if cell in (None, "", " ") else str(cell) for cell in value]
    return ("" if all(len(cell) == 1 for cell in cells) else " ").join(cells) if len(cells[0]) <= 2 else None


def _json_records(text: str, size: int | None, tier: str | None, columns: list[str]) -> Iterator[_Record]:
    try:
        yield from _value_records(json.loads(text), "", size, tier, columns)
        return
    except (RecursionError, ValueError) as error:
        whole = f"not JSON ({error})"
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    for number, line in lines:
        try:
            value = json.loads(line)
        except (RecursionError, ValueError) as error:
            yield _Record(f"line {number}", fault=f"not JSON ({error})" if len(lines) > 1 else whole)
            continue
        yield from _value_records(value, f"line {number}", size, tier, columns)


def _value_records(value: Any, place: str, size: int | None, tier: str | None, columns: list[str]) -> Iterator[_Record]:
    """The records of a JSON value."""
    if isinstance(value, dict):
        row = {str(key).lower(): entry for key, entry in value.items()}
        if fault := _columns_of(list(row), columns):
            yield _Record(place, fault=fault.replace("column", "key"))
        elif isinstance(row[columns[0]], list) and _board_text(row[columns[0]]) is None:
            sets = zip(*(row[column] for column in columns), strict=False)
            for number, entries in enumerate(sets, start=1):
                yield _record_of(f"{columns[0]} {number}", dict(zip(columns, entries, strict=True)), columns)
        elif tier is None or row.get(TIER_COLUMN) == tier:
            yield _record_of(f"{place}, key {columns[0]}".removeprefix(", "), row, columns)
    elif isinstance(value, list) and value and _board_text(value) is None:
        if all(isinstance(item, str) and "\n" not in item for item in value):
            yield from _line_records(value, size, "JSON", "item")
        else:
            for number, item in enumerate(value, start=1):
                yield from _value_records(item, f"{place}, item {number}".removeprefix(", "), size, tier, columns)
    else:
        yield _record_of(place, {"puzzle": value}, ["puzzle"])


def _wholes(line: str) -> list[str]:
    """The fields of a line that are a whole board each, packed."""
    return [one for one in _FIELDS.split(line) if len(one) in _CELLS and _PACKED[len(one)].fullmatch(one)]


def _line_records(lines: Sequence[str], size: int | None, name: str, unit: str = "line") -> Iterator[_Record]:
    """The records of lines: whole boards and grids of rows."""
    skipped = False
    read: list[_Row | _Record] = []
    lines = [plain_text(line).partition("#")[0].rstrip("\r\n") for line in lines]
    alone = sum(bool(line.strip()) for line in lines) == 1
    for number, line in enumerate(lines, start=1):
        place = f"{unit} {number}"
        wholes = [one for one in _wholes(line) if size is None or len(one) == size * size]
        entries = cells_of(line)
        cells = entries if all(len(one) <= 2 for one in entries) and _known(len(entries)) else list("".join(entries))
        if section := _SECTION.fullmatch(line):
            skipped = section[1].lower() not in ("puzzle", "grid")
            read.append(_BREAK)
        elif skipped or (is_ruling(line) and not (alone and wholes)):
            continue
        elif not line.strip():
            read.append(_Row(number, []))
        elif len({len(one) for one in wholes}) > 1:
            counts = " and of ".join(str(len(one)) for one in wholes)
            read.append(_Record(place, fault=f"it holds boards of {counts} cells; say which by --size"))
        elif len(wholes) > 2 or (len(wholes) == 2 and set(wholes[1]) & set(".0")):
            read.append(_Record(place, fault=f"{len(wholes)} boards in a line; give one, and its solution behind it"))
        elif len(wholes) == 2 or (wholes and (len(wholes[0]) != 16 or len(cells) != 16)):
            read.append(_Record(place, *wholes))
        elif _TITLE.fullmatch(line) and len(cells) < 36:
            read.append(_BREAK)
        elif _known(len(cells)):
            read.append(_Row(number, cells))
        else:
            shown = f"{line.strip()[:_SHOWN]!r}{'…' * (len(line.strip()) > _SHOWN)}"
            read.append(_Record(place, fault=f"{shown} is neither a board nor a row of one{_count(len(cells))}"))
    sixteens = [item.cells for item in read if isinstance(item, _Row) and len(item.cells) == 16]
    yield from _grids(read, size == 16 if size else bool(sixteens) and _are_rows(sixteens, name), unit)


def _are_rows(lines: list[list[str]], name: str) -> bool:
    """Whether lines of 16 cells are rows of 16×16, not 4×4 boards."""
    digits = [set(_joined(cells)) <= set("1234" + BLANKS) for cells in lines]
    four = [_fits(_joined(cells), SYMBOLS[:4]) for cells in lines]
    grids = [_joined([cell for row in lines[k : k + 16] for cell in row]) for k in range(0, len(lines), 16)]
    sixteen = len(lines) % 16 == 0 and all(any(_fits(grid, symbols) for symbols in DIGITS.values()) for grid in grids)
    if all(four) and sixteen:
        raise PuzzleParseError(
            f"{name}: {len(lines)} lines of 16 cells are as many 4×4 boards or the rows of 16×16; "
            "say which by --size 4 or --size 16 (in Python size=)"
        )
    return 2 * sum(digits) < len(lines) or (sixteen and not all(four))


def _known(cells: int) -> bool:
    return cells in SIZES or cells in _CELLS


def _count(cells: int) -> str:
    side = round(cells**0.5)
    of = f" ({side}×{side})" if side * side == cells and side > 1 and side not in SIZES else ""
    return (
        f": {cells} cells{of}, where a board has {', '.join(map(str, _CELLS))} and a row of it "
        f"{', '.join(map(str, SIZES))}; give a board a line, or n rows of n, with dots for blanks"
    )


def _grids(read: list[_Row | _Record], as_rows: bool, unit: str) -> Iterator[_Record]:
    """Records, those of grids from n rows of n cells each; an empty line stands between bands or grids."""
    pending: list[_Row] = []
    for item in [*read, _BREAK]:
        width = len(pending[0].cells) if pending else 0
        row = item if isinstance(item, _Row) and item.cells else None
        between = isinstance(item, _Row) and not item.cells and width and not len(pending) % geometry(width).box_rows
        if pending and not between and (row is None or len(row.cells) != width):
            also = f", and {len(row.cells)} cells in {unit} {row.number}" if row else ""
            rows = f"{len(pending)} row{'s' * (len(pending) > 1)}"
            fault = f"{rows} of {width} cells{also}; a {width}×{width} board has {width} rows of {width}"
            yield _Record(_lines_of(pending, unit), fault=fault)
            pending = []
        if isinstance(item, _Record):
            if item is not _BREAK:
                yield item
        elif len(item.cells) > 16 or (len(item.cells) == 16 and not as_rows):
            yield _Record(f"{unit} {item.number}", _joined(item.cells))
        elif item.cells:
            pending.append(item)
            if len(pending) == len(item.cells):
                cells = [cell for each in pending for cell in each.cells]
                yield _Record(_lines_of(pending, unit), _joined(cells))
                pending = []


def _lines_of(rows: list[_Row], unit: str) -> str:
    first, last = rows[0].number, rows[-1].number
    return f"{unit} {first}" if first == last else f"{unit}s {first} to {last}"


def _joined(cells: Sequence[str]) -> str:
    return ("" if all(len(cell) == 1 for cell in cells) else " ").join(cells)
