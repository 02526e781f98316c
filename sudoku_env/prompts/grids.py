"""The reader of grids in text: rows of cells, and the candidate grids that they make up.

`parse_puzzle` and `read_answer` read with it. What differs stays with them: a prompt's size is not known, and a
malformed grid in it is an error that names the line; an answer has the size of its puzzle, markup around it, and what
is malformed is passed over.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from sudoku_env.board import BLANKS, SIZES, SYMBOLS

_SEPARATORS = str.maketrans(dict.fromkeys("|,;/[](){}<>\"'`│┃║", " "))
_RULING = re.compile(r"[\s|+=:\-\u2500-\u257f]*")
_LABEL = re.compile(
    r"\s*+(?:\|\s*+)?(?:(?:row|line)\s*\w{1,2}\b|r\d{1,2}\b|\w{1,2}(?=\s*[:)]))\s*[:)|]?\s*", re.IGNORECASE
)
_ENTRY = re.compile(r"[0-9._xX*-]+")
_ENTRY_WITH_LETTERS = re.compile(r"[0-9A-Ga-g._xX*-]+")
_ENTRY_OF_ITS_OWN = re.compile(r"1[0-6]|[0-9A-Ga-g._xX*-]")
_SIZE_NAME = re.compile(r"\s*(\d+)\s*[xX*]\s*\1\s*")
BOARD_CELLS = tuple(size * size for size in SIZES)


@dataclass
class Row:
    """A line of text, by its number from 1, that holds nothing but cells."""

    line: int
    symbols: list[str]
    ruled: bool = False  # whether a ruling stands between it and the next row
    gapped: bool = False  # whether an empty line does


@dataclass(frozen=True)
class Grid:
    """A candidate grid: its n² cells, row by row, and the number of the line that each of the n rows stands in."""

    symbols: list[str]
    lines: list[int]

    @property
    def where(self) -> str:
        """The lines, in words."""
        first, last = self.lines[0], self.lines[-1]
        return f"line {first}" if first == last else f"lines {first}-{last}"


def grids_in(
    lines: Sequence[str],
    one_line: Collection[int],
    read_row: Callable[[str], list[str] | None],
    of_block: Callable[[list[Row]], Iterator[Grid]],
    amid_words: Callable[[int, str], Iterator[Grid]],
) -> Iterator[Grid]:
    """The grids of a text in order: of blocks of rows, which only rulings and empty lines separate, and of other lines.

    Args:
        lines: The lines of the text.
        one_line: The numbers of cells of a line that make it a grid by itself.
        read_row: The cells of a line that holds nothing else, None for any other line: `row_symbols` or a reader that
            calls it.
        of_block: The grids of a block.
        amid_words: The grids of a line of words, by its number, from 1, and its text.
    """
    block: list[Row] = []
    for number, text in enumerate(lines, start=1):
        symbols = read_row(text)
        if symbols is not None and len(symbols) not in one_line:
            block.append(Row(number, symbols))
        elif symbols is None and is_gap(text):
            if block and text.strip():
                block[-1].ruled = True
            elif block:
                block[-1].gapped = True
        else:
            if block:
                yield from of_block(block)
            block = []
            if symbols is None:
                yield from amid_words(number, text)
            else:
                yield Grid(symbols, [number] * round(len(symbols) ** 0.5))
    if block:
        yield from of_block(block)


def without_heading(rows: list[Row], size: int) -> list[Row]:
    """The rows of k grids less a first one above a ruling that numbers the columns or is empty."""
    if len(rows) % size == 1 and rows[0].ruled:
        heading = [symbol_value(symbol) for symbol in rows[0].symbols]
        if heading in ([0] * size, list(range(1, size + 1))):
            return rows[1:]
    return rows


def cut(rows: Sequence[Row], size: int) -> list[Grid] | None:
    """k grids from k · n rows of n cells; None for any other shape."""
    if len(rows) % size or any(len(row.symbols) != size for row in rows):
        return None
    bands = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [Grid([symbol for row in band for symbol in row.symbols], [row.line for row in band]) for band in bands]


def grids_amid_words(number: int, line: str, near_misses: list[str] | None = None) -> Iterator[Grid]:
    """Grids written in a line amid words; `near_misses` gets what is wrong with runs of entries that look like one."""
    for pattern, counts in ((_ENTRY, BOARD_CELLS[:-1]), (_ENTRY_WITH_LETTERS, BOARD_CELLS[-1:])):
        for symbols in _runs(line, pattern, counts):
            digits = [symbol for symbol in symbols if symbol not in BLANKS]
            size = round(len(symbols) ** 0.5)
            if len(symbols) in counts and max((symbol_value(symbol) for symbol in digits), default=0) <= size:
                yield Grid(symbols, [number] * size)
            elif near_misses is None:
                continue
            elif pattern is _ENTRY and len(symbols) >= 12 and 0 < len(digits) < len(symbols):
                near_misses.append(
                    f"line {number} has {len(symbols)} entries with {max(digits)} as the largest; "
                    f"a puzzle in one line has {', '.join(map(str, BOARD_CELLS))} with digits up to 4, 6, 9, 16"
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


def symbol_value(symbol: str) -> int:
    """0 for a blank, else the digit."""
    if symbol in BLANKS:
        return 0
    return int(symbol) if symbol.isdigit() else SYMBOLS.index(symbol.upper()) + 1
