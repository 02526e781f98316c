"""Sets of puzzles: with their solutions, from a file or from the set in the package, and as prompts in words."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Self

import numpy as np

from sudoku_env.answers import REMEDY, check_answers, solutions_to_count
from sudoku_env.board import BLANKS, SIZES, SYMBOLS, Board, BoardLike, as_board, geometry, size_of
from sudoku_env.errors import BoardError, PromptSetError, PuzzleParseError
from sudoku_env.solver import solve_batch

PROMPT_COLUMN = "prompt"
PUZZLE_COLUMN = "puzzle"
SOLUTION_COLUMN = "solution"
TIER_COLUMN = "tier"


@dataclass(frozen=True, eq=False)
class Puzzles:
    """Puzzles of one size with their solutions.

    Attributes:
        boards: uint8 `(N, n²)`, 0 for a blank.
        solutions: uint8 `(N, n²)`, the only solution of each board; where any answer is right, one of them.
    """

    boards: Board
    solutions: Board

    def __len__(self) -> int:
        return len(self.boards)

    @classmethod
    def of(cls, boards: Sequence[BoardLike], answers: str = "one") -> Self:
        """Puzzles and the solutions that the solver finds.

        Args:
            boards: At least one board of any form that `as_board` takes, all of one size.
            answers: "one": each must have exactly one solution; "any": each must have one or several.

        Raises:
            BoardError: There is no board, one is malformed or of another size than the first, or one has no blank or
                not as many solutions as it must have.
            SudokuError: `answers` is unknown.
        """
        if len(boards) == 0:
            raise BoardError("boards is empty; pass at least one puzzle")
        size = size_of(as_board(boards[0]).size)
        puzzles = np.stack([as_board(board, size) for board in boards])
        solutions, counts = solve_batch(puzzles, limit=solutions_to_count(check_answers(answers)))
        for number, (puzzle, count) in enumerate(zip(puzzles, counts, strict=True)):
            if count == 0:
                raise BoardError(f"board {number} has no solution; it needs one")
            if count > 1:
                raise BoardError(f"board {number} has more than one solution; it needs one, or {REMEDY}")
            if puzzle.all():
                raise BoardError(f"board {number} has no blank; there is nothing to fill")
        return cls(puzzles, solutions)


@cache
def default_puzzles(size: int) -> Puzzles:
    """The puzzles that travel in the package: always the same, all different, solved by naked and hidden singles.

    | size | puzzles | clues |
    |---|---|---|
    | 4 | 500 | 5–7 |
    | 6 | 1,000 | 14–18 |
    | 9 | 1,000 | 30–36 |
    | 16 | 100 | 140–160 |

    Returns:
        Boards and solutions `(N, n²)`, read-only; the same object at every call.

    Raises:
        BoardError: The size is not one of `SIZES`.
    """
    geometry(size)
    puzzles = read_puzzles(files("sudoku_env") / "data" / f"sudoku{size}x{size}.csv")
    puzzles.boards.flags.writeable = puzzles.solutions.flags.writeable = False
    return puzzles


def read_puzzles(path: str | Path | Traversable, *, tier: str | None = None) -> Puzzles:
    """Read puzzles of one size from a CSV file with the columns `puzzle` and `solution`; others are ignored.

    Args:
        path: UTF-8, with a header, in any case. Puzzles and solutions are packed, a symbol a cell (`53..7....`; A..G
            for 10..16).
        tier: Read only the lines with this text in the column `tier`.

    Returns:
        At least one puzzle, in the order of the file. That a solution solves its puzzle is not checked.

    Raises:
        FileNotFoundError: There is no such file.
        PuzzleParseError: Not CSV in UTF-8, a column is missing, there is no puzzle, or a board is malformed; the
            message names the file and the puzzle, counted from 1 among those asked for.
    """
    source = Path(path) if isinstance(path, str) else path
    try:
        reader = csv.DictReader(io.StringIO(source.read_text(encoding="utf-8"), newline=""), strict=True)
        if header := reader.fieldnames:
            reader.fieldnames = [name.lower() for name in header]
        records = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise PuzzleParseError(f"{path}: not CSV in UTF-8 ({error})") from None
    columns = {PUZZLE_COLUMN, SOLUTION_COLUMN} if tier is None else {PUZZLE_COLUMN, SOLUTION_COLUMN, TIER_COLUMN}
    if missing := columns - set(reader.fieldnames or []):
        raise PuzzleParseError(f"{path}: no column {sorted(missing)} among {reader.fieldnames}")
    if tier is not None:
        found = sorted({str(record[TIER_COLUMN]) for record in records})
        records = [record for record in records if record[TIER_COLUMN] == tier]
        if not records:
            raise PuzzleParseError(f"{path}: no puzzle of tier {tier!r}; there are {found}")
    if not records:
        raise PuzzleParseError(f"{path}: no puzzles; expected one a line below the header")
    return Puzzles(
        _unpack([record[PUZZLE_COLUMN] or "" for record in records], f"{path}, column {PUZZLE_COLUMN!r}"),
        _unpack([record[SOLUTION_COLUMN] or "" for record in records], f"{path}, column {SOLUTION_COLUMN!r}"),
    )


def read_packed(path: str | Path) -> Board:
    """Read a text file of packed puzzles, one a line, as public lists of puzzles are; `#` begins a comment.

    Args:
        path: ASCII; empty lines are skipped.

    Returns:
        At least one board, uint8 `(N, n²)`, in the order of the file. Nothing about solutions is checked.

    Raises:
        FileNotFoundError: There is no such file.
        PuzzleParseError: There is no puzzle, or one is malformed; the message names the file and the puzzle, counted
            from 1.
    """
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    lines = [line for raw in text.splitlines() if (line := raw.partition("#")[0].strip())]
    if not lines:
        raise PuzzleParseError(f"{path}: no puzzles; expected one a line, a symbol a cell")
    return _unpack(lines, str(path))


def read_prompts(path: str | Path) -> list[str]:
    """Read the prompts of a set, in order; other columns are ignored.

    Args:
        path: A file whose name ends in `.jsonl` or `.ndjson` (one JSON object a line, empty lines skipped), `.csv`
            (with a header) or `.parquet` (needs `pyarrow`, extra `parquet`). Text is UTF-8.

    Returns:
        At least one prompt.

    Raises:
        FileNotFoundError: There is no such file.
        PromptSetError: Unknown ending, no prompt at all, or a line that is malformed or lacks a prompt. The message
            names the file and the line, for parquet the row, both counted from 1.
    """
    path = Path(path)
    if path.suffix not in _READERS:
        raise PromptSetError(f"{path}: unknown format {path.suffix!r}; use one of {', '.join(_READERS)}")
    if not path.exists():
        raise FileNotFoundError(f"no prompt set at {path}")
    prompts = []
    for where, prompt in _READERS[path.suffix](path):
        if not isinstance(prompt, str) or not prompt.strip():
            raise PromptSetError(f"{path}, {where}: {PROMPT_COLUMN!r} must be a text that is not empty, got {prompt!r}")
        prompts.append(prompt)
    if not prompts:
        raise PromptSetError(f"{path}: no prompts; expected one a line with a {PROMPT_COLUMN!r} column")
    return prompts


def _unpack(lines: Sequence[str], where: str) -> Board:
    """Packed boards as uint8 `(N, n²)`; the first tells the size."""
    size = next((n for n in SIZES if n * n == len(lines[0])), 0)
    for number, line in enumerate(lines, start=1):
        if size == 0 or len(line) != size * size or not line.isascii():
            cells = size * size if size else f"{' or '.join(str(n * n) for n in SIZES)}"
            raise PuzzleParseError(f"{where}, puzzle {number}: expected {cells} symbols, found {line!r}")
    digits = _DIGITS[np.frombuffer("".join(lines).encode("ascii"), dtype=np.uint8)].reshape(-1, size * size)
    wrong = np.argwhere(digits > size)
    if wrong.size:
        number, cell = wrong[0]
        raise PuzzleParseError(f"{where}, puzzle {number + 1}: {lines[number][cell]!r} is neither blank nor 1..{size}")
    return digits


_DIGITS = np.full(128, 255, dtype=np.uint8)
_DIGITS[[ord(symbol) for symbol in BLANKS]] = 0
_DIGITS[[ord(symbol) for symbol in SYMBOLS]] = np.arange(1, len(SYMBOLS) + 1)


def _read_json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise PromptSetError(
                f"{path}, line {number}: not JSON ({error.msg} at character {error.pos + 1})"
            ) from None
        except (RecursionError, ValueError) as error:  # nested too deeply, or a number of thousands of digits
            raise PromptSetError(f"{path}, line {number}: JSON that cannot be read ({error})") from None
        if not isinstance(record, dict) or PROMPT_COLUMN not in record:
            found = f"keys {list(record)}" if isinstance(record, dict) else type(record).__name__
            raise PromptSetError(
                f"{path}, line {number}: expected an object with the key {PROMPT_COLUMN!r}, found {found}"
            )
        yield f"line {number}", record[PROMPT_COLUMN]


def _read_csv(path: Path) -> Iterator[tuple[str, Any]]:
    reader = csv.DictReader(io.StringIO(_text(path), newline=""), strict=True)
    begin = 1
    try:
        if PROMPT_COLUMN not in (reader.fieldnames or []):
            raise PromptSetError(f"{path}, line 1: no column {PROMPT_COLUMN!r} among {reader.fieldnames}")
        begin = reader.line_num + 1
        for record in reader:
            yield f"line {begin}", record[PROMPT_COLUMN]
            begin = reader.line_num + 1
    except csv.Error as error:
        raise PromptSetError(f"{path}, line {begin}: not CSV ({error})") from None


def _read_parquet(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError:
        hint = "parquet needs pyarrow; install it with `pip install 'sudoku-dllm[parquet]'`"
        raise PromptSetError(f"{path}: {hint}") from None
    try:
        table = parquet.read_table(path)
    except ValueError as error:
        raise PromptSetError(f"{path}: not parquet ({error})") from None
    if PROMPT_COLUMN not in table.column_names:
        raise PromptSetError(f"{path}: no column {PROMPT_COLUMN!r} among {table.column_names}")
    for number, prompt in enumerate(table[PROMPT_COLUMN].to_pylist(), start=1):
        yield f"row {number}", prompt


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PromptSetError(f"{path}, line {line}: not UTF-8 ({error.reason})") from None


_READERS: dict[str, Callable[[Path], Iterator[tuple[str, Any]]]] = {
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
