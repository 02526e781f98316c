"""Boards: sizes, units, peers, parsing and formatting.

A board of size n is a flat uint8 array of n² cells, row by row, 0 for a blank and 1..n for a digit.
Sizes: 4 (2×2 boxes), 6 (boxes of 2 rows × 3 columns), 9 (3×3) and 16 (4×4).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from sudoku_env.errors import BoardError
from sudoku_env.invisible import invisible_characters

Board = NDArray[np.uint8]
BoardLike = str | Sequence[int] | Sequence[Sequence[int]] | NDArray[np.integer]

BOX_SHAPES: dict[int, tuple[int, int]] = {4: (2, 2), 6: (2, 3), 9: (3, 3), 16: (4, 4)}
SIZES: tuple[int, ...] = tuple(BOX_SHAPES)
SYMBOLS = "123456789ABCDEFG"
BLANKS = "0._xX*-?"
_SAME = {"·•∙⋅": ".", "│┃║┆┇┊┋╎╏": "|", "".join(map(chr, range(0x2500, 0x2580))): "-"}
_LOOK_ALIKES = {ord(mark): plain for marks, plain in reversed(_SAME.items()) for mark in marks}
_SHOWN = re.compile(r"\x1b\[[0-9;]*m|[<!]")
"""What pictures of boards in a terminal have beside the cells: colors, and marks of errors and of the last move."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """Index tables of one board size; every array is read-only.

    Attributes:
        size: n, the number of rows, columns, boxes and digits.
        box_rows: Rows of a box.
        box_columns: Columns of a box.
        units: int64 `(3n, n)`, the cells of each unit: n rows, then n columns, then n boxes.
        units_of: int64 `(n², 3)`, the row, column and box unit of each cell.
        peers: int64 `(n², p)`, the other cells that share a unit with each cell, ascending.
    """

    size: int
    box_rows: int
    box_columns: int
    units: NDArray[np.int64]
    units_of: NDArray[np.int64]
    peers: NDArray[np.int64]

    @property
    def cells(self) -> int:
        """Number of cells, n²."""
        return self.size * self.size


@cache
def geometry(size: int) -> Geometry:
    """The index tables of a board size.

    Raises:
        BoardError: The size is not one of `SIZES`.
    """
    if size not in BOX_SHAPES:
        raise BoardError(f"size {size!r} is not supported; choose one of {SIZES}")
    box_rows, box_columns = BOX_SHAPES[size]
    cell = np.arange(size * size)
    row, column = cell // size, cell % size
    box = (row // box_rows) * (size // box_columns) + column // box_columns
    units_of = np.stack([row, size + column, 2 * size + box], axis=1)
    units = np.stack([np.flatnonzero((units_of == unit).any(1)) for unit in range(3 * size)])
    related = (units_of[:, None, :] == units_of[None, :, :]).any(-1)
    np.fill_diagonal(related, False)
    peers = np.stack([np.flatnonzero(line) for line in related])
    for table in (units, units_of, peers):
        table.flags.writeable = False
    return Geometry(size, box_rows, box_columns, units, units_of, peers)


def size_of(cells: int) -> int:
    """Board size for a number of cells, e.g. 36 → 6.

    Raises:
        BoardError: No supported board has that many cells.
    """
    for size in SIZES:
        if size * size == cells:
            return size
    raise BoardError(f"{cells} cells do not make a board; supported are {[n * n for n in SIZES]} cells")


def as_board(board: BoardLike, size: int | None = None) -> Board:
    """Convert a string, list or array to a flat board of a known size, checking shape and range.

    Args:
        board: n² symbols as a string (blanks `0 . _ x * - ?`, separators and rulings ignored; see `parse_board`), or
            n² integers, flat or as n rows.
        size: The size it must have, or None to take it from the number of cells.

    Returns:
        A new uint8 `(n²,)` array.

    Raises:
        BoardError: Wrong shape, unknown size, or a value outside 0..n. A clash of digits is not an error here.
    """
    if isinstance(board, str):
        return parse_board(board, size)
    values = np.asarray(board)
    if values.dtype.kind not in "iu" or values.ndim not in (1, 2):
        raise BoardError(
            f"a board needs integers in one or two dimensions, got dtype {values.dtype} with shape {values.shape}"
        )
    if values.ndim == 2 and values.shape[0] != values.shape[1]:
        raise BoardError(f"a board is square, got shape {values.shape}")
    n = size_of(values.size)
    if size is not None and n != size:
        raise BoardError(f"expected {size * size} cells for size {size}, got {values.size}")
    flat = values.reshape(-1)
    wrong = np.flatnonzero((flat < 0) | (flat > n))
    if wrong.size:
        cell = int(wrong[0])
        raise BoardError(f"{cell_name(cell, n)} holds {int(flat[cell])}; digits are 1..{n} and 0 is blank")
    return flat.astype(np.uint8)


def as_boards(boards: NDArray[np.integer] | Sequence[Sequence[int]] | Sequence[int]) -> Board:
    """Check one or many flat boards; the last axis is always the n² cells, so `(16, 16)` is 16 boards of size 4.

    Args:
        boards: `(n²,)` or `(N, n²)` integers.

    Returns:
        uint8 of the same shape, contiguous and writable; the array itself where it is all that.

    Raises:
        BoardError: Wrong shape, unknown size, or a value outside 0..n.
    """
    values = np.asarray(boards)
    if values.dtype.kind not in "iu" or values.ndim not in (1, 2):
        raise BoardError(
            f"boards need integers of shape (n²,) or (N, n²), got dtype {values.dtype} with shape {values.shape}"
        )
    n = size_of(values.shape[-1])
    if values.size and (values.min() < 0 or values.max() > n):
        where = np.argwhere((values < 0) | (values > n))[0]
        raise BoardError(f"{cell_name(int(where[-1]), n)} holds {values[tuple(where)]}; digits are 1..{n}, 0 is blank")
    return np.require(values, dtype=np.uint8, requirements=["C", "W"])


def parse_board(text: str, size: int | None = None, *, symbols: str = SYMBOLS) -> Board:
    """Read a board from text that holds nothing else.

    Cells may be packed (`53..7....`) or separated by spaces, commas, `|` or line ends, with rulings such as
    `------+------`, also of box-drawing characters, between the rows. Separated cells may be numbers of two digits
    (16×16); packed ones use A..G for 10..16. Between two commas, semicolons, tabs or `|` of a row nothing is a blank.

    All cells stand in one line or n in each of n lines. A line of nothing but `-` among others is a ruling, so a board
    with a blank row needs another sign for its blanks. Spaces of any width separate cells; a character that is not seen
    and no space is none of a board. What `decode` prints is read: `+` is a blank, and marks beside digits are not read.

    Args:
        text: The text.
        size: The size it must have, or None to take it from the number of cells.
        symbols: The digits 1, 2, …, a character each, of which the first n are taken; one that is no blank then.

    Raises:
        BoardError: The text is no board; the message names the symbol, the line or the count at fault, and characters
            that are not seen.
        TypeError: It is no text.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a text, got {text!r:.60}")
    n = isqrt(len(text))
    if n * n == len(text) and n in SIZES and size in (None, n) and text.isascii():
        packed = _values_of(symbols)[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
        if packed.max() <= n:
            return packed
    try:
        return _parse_board(text, size, symbols)
    except BoardError as error:
        raise BoardError(f"{error}{invisible_characters(text)}") from None


@cache
def _values_of(symbols: str) -> Board:
    """The digit of each ASCII character, uint8 `(128,)`: 0 for a blank, 255 for what stands in no cell."""
    values = np.full(128, 255, dtype=np.uint8)
    values[[ord(symbol) for symbol in BLANKS]] = 0
    for digit, symbol in enumerate(symbols, start=1):
        values[[ord(symbol.upper()), ord(symbol.lower())]] = digit
    return values


def _parse_board(text: str, size: int | None, symbols: str) -> Board:
    lines = [cells_of(row) for row in plain_text(text).splitlines() if row.strip() and not is_ruling(row)]
    separated = all(len(entry) <= 2 for line in lines for entry in line)
    entries = sum(len(line) for line in lines)
    if not (separated and entries in ([n * n for n in SIZES] if size is None else [size * size])):
        lines = [list("".join(line)) for line in lines]
    cells = [symbol for line in lines for symbol in line]
    n = size_of(len(cells)) if size is None else size
    if len(cells) != n * n:
        raise BoardError(f"expected {n * n} cells for size {n}, found {len(cells)}")
    for number, line in enumerate(lines, start=1):
        if len(lines) > 1 and len(line) != n:
            raise BoardError(f"line {number} holds {len(line)} cells; {n * n} cells stand in one line or {n} each")
    values = [_digit(symbol, cell, n, symbols) for cell, symbol in enumerate(cells)]
    return np.array(values, dtype=np.uint8)


def plain_text(text: str) -> str:
    """The text with ASCII characters for dots and lines that look alike, and without colors and marks beside digits."""
    return _SHOWN.sub("", text).translate(_LOOK_ALIKES)


def cells_of(row: str) -> list[str]:
    """The entries of a line in plain text, a cell or several packed ones each."""
    for mark in ",;\t|":
        inner = row.strip(" \r")
        if mark == "|" and len(inner) > 1 and inner[0] == inner[-1] == "|":
            inner = inner[1:-1]
        fields = [field.strip() for field in inner.split(mark)]
        if "" in fields and _is_count(len(fields)) and all(len(field) <= 2 for field in fields):
            return [field or "." for field in fields]
    return re.sub("[][(){}|,;'\"]", " ", row).replace("+", ".").split()


def _is_count(cells: int) -> bool:
    """Whether a row or a board may have so many cells."""
    return any(cells in (n, n * n) for n in SIZES)


def format_board(board: BoardLike, *, blank: str = ".", separator: str = " ", symbols: str = SYMBOLS) -> str:
    """Board as n lines of n symbols: digits 1..9, then A..G, or the first n of others."""
    flat = as_board(board)
    n = size_of(flat.size)
    cells = [blank if digit == 0 else symbols[digit - 1] for digit in flat]
    return "\n".join(separator.join(cells[row * n : row * n + n]) for row in range(n))


def to_string(board: BoardLike, *, blank: str = ".", symbols: str = SYMBOLS) -> str:
    """Board as one packed line of n² symbols."""
    return format_board(board, blank=blank, separator="", symbols=symbols).replace("\n", "")


def find_conflict(board: BoardLike) -> tuple[int, int] | None:
    """The first pair of cells that hold the same digit in one unit, or None."""
    flat = as_board(board)
    cells = np.flatnonzero(conflicts(flat[None])[0])
    if not cells.size:
        return None
    peers = geometry(size_of(flat.size)).peers[cells[0]]
    return int(cells[0]), int(peers[flat[peers] == flat[cells[0]]][0])


def check_no_clash(board: BoardLike) -> Board:
    """`as_board` that also refuses a digit twice in a unit.

    Raises:
        BoardError: Wrong shape, a value out of range, or a clash; the message names two cells that clash.
    """
    flat = as_board(board)
    clash = find_conflict(flat)
    if clash:
        size = size_of(flat.size)
        one, other = (cell_name(cell, size) for cell in clash)
        raise BoardError(f"{one} and {other} share a unit and both hold {flat[clash[0]]}; blank one of them with 0")
    return flat


def conflicts(boards: Board) -> NDArray[np.bool_]:
    """The cells whose digit also stands in another cell of their row, column or box, bool `(N, n²)`.

    Args:
        boards: uint8 `(N, n²)`, 0 for a blank.
    """
    table = geometry(size_of(boards.shape[1]))
    same = boards[:, table.peers] == boards[:, :, None]  # (N, n², peers)
    return same.any(-1) & (boards > 0)


def is_valid(board: BoardLike) -> bool:
    """Whether no digit stands twice in a unit; a board with blanks may be valid and yet have no solution."""
    return find_conflict(board) is None


def is_solved(board: BoardLike) -> bool:
    """Whether the board is full and valid."""
    flat = as_board(board)
    return bool((flat > 0).all()) and is_valid(flat)


def cell_name(cell: int, size: int) -> str:
    """A cell for people, e.g. `row 2, column 5` (both from 1)."""
    return f"row {cell // size + 1}, column {cell % size + 1}"


def is_ruling(line: str) -> bool:
    """Whether a line in plain text only parts rows."""
    return len(line.strip()) > 1 and set(line.strip()) <= set("-+|= \t") and any(c in "-=" for c in line)


def _digit(symbol: str, cell: int, size: int, symbols: str) -> int:
    if len(symbol) == 1 and symbol.isascii() and (value := int(_values_of(symbols)[ord(symbol)])) < 255:
        pass
    elif symbol.isascii() and symbol.isdigit() and symbols[0] in "01":
        value = int(symbol) + (symbols[0] == "0")
    else:
        raise BoardError(f"{cell_name(cell, size)}: {symbol!r} is neither a digit nor a blank ({BLANKS})")
    if value > size:
        raise BoardError(f"{cell_name(cell, size)} holds {symbol}; digits are 1..{size}")
    return value
