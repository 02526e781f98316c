"""The reader of puzzles: what a file, an argument or standard input holds, in the forms that people keep.

A text is a table with a header (CSV, tabs or semicolons), JSON, or lines: whole boards, alone or with other fields, or
rows of a grid with rulings, comments behind `#` and titles between them. Its form says which; where two readings fit,
it is refused, and the message names the argument that tells them apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np

from sudoku_env.board import BLANKS, SYMBOLS, Board, cell_name, check_no_clash, conflicts, parse_board, size_of
from sudoku_env.errors import BoardError, PuzzleParseError, SudokuError
from sudoku_env.records import CELLS, DIGITS, WANTED, Record, fits, records_in

_AT_A_TIME = 4096


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
        """The boards, uint8 `(N, n²)`; a `PuzzleParseError` where they are of different sizes."""
        first = self.boards[0].size
        for board, place in zip(self.boards, self.places, strict=True):
            if board.size != first:
                raise PuzzleParseError(f"{place} holds {board.size} cells and {self.places[0]} {first}; give size=")
        return np.stack(self.boards)


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
    text = content if isinstance(content, str) else decoded(content, name)
    columns: list[str] = []
    records = list(records_in(text.removeprefix("\ufeff"), size, tier, columns, name))
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
    for cells in CELLS:
        alike = [number for number, board in boards.items() if board.size == cells]
        for start in range(0, len(alike), _AT_A_TIME):
            part = alike[start : start + _AT_A_TIME]
            yield from np.array(part)[conflicts(np.stack([boards[number] for number in part])).any(1)].tolist()


def decoded(content: bytes, name: str) -> str:
    """The text of a file, without a byte order mark."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PuzzleParseError(
            f"{name}, line {line}: no text in UTF-8 ({error.reason} at byte {error.start + 1}); save it as text"
        ) from None


def _board_of(record: Record, size: int | None, symbols: str, columns: list[str]) -> Board:
    if record.fault:
        raise PuzzleParseError(record.fault)
    if columns[:1] == ["prompt"]:
        from sudoku_env.prompts.text import parse_puzzle

        return parse_puzzle(record.puzzle, "any")
    return parse_board(record.puzzle, size, symbols=symbols)


def _solution_of(record: Record, board: Board, symbols: str) -> Board:
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
    if len(counts) != 1 or (cells := counts.pop()) not in CELLS:
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
        fit = [symbols for symbols in fit if all(fits(text, symbols) for text in texts)] or [SYMBOLS]
    if len(fit) > 1:
        first, second = (next(key for key in DIGITS if DIGITS[key] == symbols) for symbols in fit)
        raise PuzzleParseError(
            f"{name}: these {size}×{size} cells can be read in digits {first} and in digits {second}; "
            f"say which by --symbols {first} or --symbols {second} (in Python symbols=)"
        )
    return fit[0]
