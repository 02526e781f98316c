"""From a text to the puzzles in it as they are written: tables, JSON, whole boards a line, and grids of rows."""

import csv
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sudoku_env.board import BLANKS, SIZES, SYMBOLS, cells_of, geometry, is_ruling, is_valid, parse_board, plain_text
from sudoku_env.errors import BoardError, PuzzleParseError
from sudoku_env.invisible import invisible_characters

DIGITS = {"1-G": SYMBOLS, "0-F": "0123456789ABCDEF", "A-P": "ABCDEFGHIJKLMNOP"}
"""What digits are written as, by name: the first n characters."""
PUZZLE_COLUMNS = "puzzle puzzles quizzes quiz question questions board sudoku grid unsolved prompt".split()
SOLUTION_COLUMNS = "solution solutions answer answers solved".split()
TIER_COLUMN = "tier"
WANTED = (
    "give cells row by row with dots for blanks (53..7….), a file of such lines or of grids, CSV with a column puzzle, "
    "or JSON"
)
CELLS = [n * n for n in SIZES]
_PACKED = {
    cells: re.compile(rf"[{symbols}{BLANKS.replace('-', '')}-]+", re.IGNORECASE)
    for cells, symbols in zip(CELLS, ("1-4A-D", "1-6A-F", "1-9A-I", "1-9A-P"), strict=True)
}
_FIELDS = re.compile(r"[\s,;:|\"'=<>()\[\]{}]+")
_TITLE = re.compile(r"\W*(the\s+)?(grid|puzzle|sudoku|board|game|level|nr|no)\b.{0,60}|\s*```\w*\s*", re.IGNORECASE)
_SECTION = re.compile(r"\s*\[(\w+)\]\s*")
_SHOWN = 60
"""Characters of a line that a message shows."""


@dataclass
class Record:
    """A puzzle as it is written, with the solution beside it, or what is wrong with what stands in its place."""

    place: str  # e.g. "line 7"
    puzzle: str = ""
    solution: str = ""
    fault: str = ""


@dataclass(frozen=True)
class _Row:
    """A line of nothing but cells, or of nothing."""

    number: int
    cells: list[str]


_BREAK = Record("")
"""Where no grid goes on."""


def records_in(text: str, size: int | None, tier: str | None, columns: list[str], name: str) -> Iterator[Record]:
    """The records of a text; `columns` gets the names of the columns that they are from."""
    if re.match(r"\s*(\{|\[(?!\w+\]))", text):
        return _json_records(text, size, tier, columns, name)
    lines = (text if "\n" in text else text.replace("\r", "\n")).split("\n")
    for number, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            delimiter = next((mark for mark in "\t;," if mark in line), ",")
            names = [one.strip("\"' \r").lower() for one in line.split(delimiter)]
            below = next((rest for rest in lines[number + 1 :] if rest.strip()), "")
            known = any(one in PUZZLE_COLUMNS for one in names) and (len(names) > 1 or bool(_wholes(below)))
            if known or (len(names) > 1 and not _wholes(line) and all(re.match(r"[a-z]\w+$", one) for one in names)):
                rest = io.StringIO("\n".join(lines[number + 1 :]), newline="")
                reader = csv.DictReader(rest, names, delimiter=delimiter, strict=True)
                return _table_records(reader, number + 1, tier, columns)
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


def _table_records(reader: "csv.DictReader[str]", above: int, tier: str | None, columns: list[str]) -> Iterator[Record]:
    if fault := _columns_of(reader.fieldnames or (), columns):
        yield Record(f"line {above}", fault=fault)
        return
    csv.field_size_limit(sys.maxsize)
    tiers: set[str] = set()
    taken, begin = False, above + 1
    try:
        for row in reader:
            breaks = sum(str(value).count("\n") for value in row.values())
            place, begin = f"line {above + reader.line_num - breaks}, column {columns[0]}", above + reader.line_num + 1
            if tier is not None:
                tiers.add(str(row.get(TIER_COLUMN)))
                if row.get(TIER_COLUMN) != tier:
                    continue
            taken = True
            record = _record_of(place, row, columns)
            if not record.fault and None in row.values():  # then its columns may be others
                told = f"{sum(value is not None for value in row.values())} fields where the header names {len(row)}"
                record = Record(place, fault=f"{told}; write one for each, empty where there is none")
            yield record
    except csv.Error as error:
        yield Record(f"line {begin}", fault=f"not CSV ({error}); close each quotation mark")
    if tier is not None and not taken:
        yield Record("", fault=f"no puzzle of tier {tier!r}; there are {sorted(tiers)}")


def _record_of(place: str, row: dict[Any, Any], columns: list[str]) -> Record:
    puzzle, *beside = (_text_of(row.get(column)) for column in columns)
    if not puzzle or not puzzle.strip() or (columns[0] == "prompt" and not isinstance(row["prompt"], str)):
        return Record(place, fault=f"{row.get(columns[0])!r:.60} is no {columns[0]}; give a text that is not empty")
    kept = puzzle if columns[0] == "prompt" else puzzle.strip()
    return Record(place, kept, (beside[0] or "").strip() if beside else "")


def _text_of(value: Any) -> str | None:
    """A text, the cells of a list, or the rows of a list of such; None for any other value."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or any(isinstance(cell, dict) for cell in value):
        return None
    rows = [_text_of(row) for row in value if isinstance(row, list)]
    if rows:
        return None if None in rows or len(rows) < len(value) else "\n".join(map(str, rows))
    cells = ["." if cell in (None, "", " ") else str(cell) for cell in value]
    if all(len(cell) == 1 for cell in cells):
        return "".join(cells)
    return ("\n" if any(len(cell) > 2 for cell in cells) else " ").join(cells)


def _json_records(text: str, size: int | None, tier: str | None, columns: list[str], name: str) -> Iterator[Record]:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    try:
        values = [("", json.loads(text))]
    except (RecursionError, ValueError) as error:
        if '"' not in text:  # lists as programs print them
            yield from _line_records(text.split("\n"), size, name)
            return
        if len(lines) == 1 or not lines[0][1].rstrip().endswith(("}", "]")):
            yield Record("", fault=f"not JSON ({error})")
            return
        values = []
    for number, line in lines if not values else []:
        try:
            values.append((f"line {number}", json.loads(line)))
        except (RecursionError, ValueError) as error:
            yield Record(f"line {number}", fault=f"not JSON ({error})")
    for place, value in values:
        yield from _value_records(value, place, size, tier, columns, name)


def _value_records(
    value: Any, place: str, size: int | None, tier: str | None, columns: list[str], name: str
) -> Iterator[Record]:
    """The records of a JSON value."""
    if isinstance(value, dict):
        row = {str(key).lower(): entry for key, entry in value.items()}
        if fault := _columns_of(list(row), columns):
            yield Record(place, fault=fault.replace("column", "key"))
        elif tier is None or row.get(TIER_COLUMN) == tier:
            yield _record_of(f"{place}, key {columns[0]}".removeprefix(", "), row, columns)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value, start=1):
            yield from _value_records(item, f"{place}, item {number}".removeprefix(", "), size, tier, columns, name)
    elif isinstance(value, list) and value and (text := _text_of(value)):
        yield from _line_records(text.split("\n"), size, f"{name}{', ' * bool(place)}{place}", "item")
    else:
        yield Record(place, fault=f"{value!r:.60} is no puzzle; {WANTED}")


def fits(text: str, symbols: str) -> bool:
    """Whether a text is a board without a clash in these symbols."""
    try:
        return is_valid(parse_board(text, symbols=symbols))
    except BoardError:
        return False


def _wholes(line: str) -> list[str]:
    """The fields of a line that are a whole board each, packed."""
    return [one for one in _FIELDS.split(line) if len(one) in CELLS and _PACKED[len(one)].fullmatch(one)]


def _line_records(lines: Sequence[str], size: int | None, name: str, unit: str = "line") -> Iterator[Record]:
    """The records of lines: whole boards and grids of rows."""
    skipped = False
    read: list[_Row | Record] = []
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
            read.append(Record(place, fault=f"it holds boards of {counts} cells; say which by --size"))
        elif len(wholes) == 1 and len(line) > 1.5 * len(wholes[0]) and not set(wholes[0]) & set(BLANKS):
            # Its puzzle may have lost a cell, or got one.
            read.append(Record(place, fault="it holds a full grid, and what is beside it is no puzzle; mend that"))
        elif len(wholes) > 2 or (len(wholes) == 2 and set(wholes[1]) & set(".0")):
            read.append(Record(place, fault=f"{len(wholes)} boards in a line; give one, and its solution behind it"))
        elif len(wholes) == 2 or (wholes and (len(wholes[0]) != 16 or len(cells) != 16)):
            read.append(Record(place, *wholes))
        elif _TITLE.fullmatch(line) and len(cells) < 36:
            read.append(_BREAK)
        elif _known(len(cells)):
            read.append(_Row(number, cells))
        else:
            shown = f"{line.strip()[:_SHOWN]!r}{'…' * (len(line.strip()) > _SHOWN)}"
            wrong = f"{shown} is neither a board nor a row of one{_count(len(cells))}"
            read.append(Record(place, fault=wrong + invisible_characters(line)))
    sixteens = [item.cells for item in read if isinstance(item, _Row) and len(item.cells) == 16]
    yield from _grids(read, size == 16 if size else bool(sixteens) and _are_rows(sixteens, name), unit)


def _are_rows(lines: list[list[str]], name: str) -> bool:
    """Whether lines of 16 cells are rows of 16×16, not 4×4 boards."""
    four = [any(fits(_joined(cells), symbols[:4]) for symbols in DIGITS.values()) for cells in lines]
    grids = [_joined([cell for row in lines[k : k + 16] for cell in row]) for k in range(0, len(lines), 16)]
    sixteen = len(lines) % 16 == 0 and all(any(fits(grid, symbols) for symbols in DIGITS.values()) for grid in grids)
    if all(four) and sixteen:
        raise PuzzleParseError(
            f"{name}: {len(lines)} lines of 16 cells are as many 4×4 boards or the rows of 16×16; "
            "say which by --size 4 or --size 16 (in Python size=)"
        )
    few = [len(set(cells) - set(BLANKS)) <= 4 and not any(len(cell) > 1 for cell in cells) for cells in lines]
    return 2 * sum(few) < len(lines) or (sixteen and not all(four))


def _known(cells: int) -> bool:
    return cells in SIZES or cells in CELLS


def _count(cells: int) -> str:
    side = round(cells**0.5)
    of = f" ({side}×{side})" if side * side == cells and side > 1 and side not in SIZES else ""
    return (
        f": {cells} cells{of}, where a board has {', '.join(map(str, CELLS))} and a row of it "
        f"{', '.join(map(str, SIZES))}; give a board a line, or n rows of n, with dots for blanks"
    )


def _grids(read: list[_Row | Record], as_rows: bool, unit: str) -> Iterator[Record]:
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
            yield Record(_lines_of(pending, unit), fault=fault)
            pending = []
        if isinstance(item, Record):
            if item is not _BREAK:
                yield item
        elif len(item.cells) > 16 or (len(item.cells) == 16 and not as_rows):
            yield Record(f"{unit} {item.number}", _joined(item.cells))
        elif item.cells:
            pending.append(item)
            if len(pending) == len(item.cells):
                cells = [cell for each in pending for cell in each.cells]
                yield Record(_lines_of(pending, unit), _joined(cells))
                pending = []


def _lines_of(rows: list[_Row], unit: str) -> str:
    first, last = rows[0].number, rows[-1].number
    return f"{unit} {first}" if first == last else f"{unit}s {first} to {last}"


def _joined(cells: Sequence[str]) -> str:
    return ("" if all(len(cell) == 1 for cell in cells) else " ").join(cells)
