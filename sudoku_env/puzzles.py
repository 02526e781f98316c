"""Sets of puzzles: with their solutions, from a file or from the set in the package, and as prompts in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Self

import numpy as np

from sudoku_env.answers import REMEDY, check_answers, solutions_to_count
from sudoku_env.board import Board, BoardLike, as_board, geometry, size_of
from sudoku_env.errors import BoardError, PromptSetError, PuzzleParseError
from sudoku_env.prompts.text import build_prompt
from sudoku_env.reading import boards_in, decoded, read_boards
from sudoku_env.records import records_in
from sudoku_env.solver import solve_batch

PROMPT_COLUMN = "prompt"


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


def read_puzzles(
    path: str | Path | Traversable,
    *,
    tier: str | None = None,
    size: int | None = None,
    symbols: str | None = None,
    answers: str = "one",
) -> Puzzles:
    """Read puzzles of one size from a file of any form that `read_boards` takes, with their solutions.

    Args:
        path: The file.
        tier: Read only the rows with this text in the column `tier`.
        size: As in `read_boards`.
        symbols: As in `read_boards`.
        answers: As in `Puzzles.of`, where the file has no solutions.

    Returns:
        At least one puzzle, in the order of the file, with the solution that stands beside it; where one has none, all
        are the solver's. That a solution from a file is the only one is not checked.

    Raises:
        FileNotFoundError: There is no such file.
        PuzzleParseError: `read_boards` refuses the file, or the puzzles are of different sizes.
        BoardError: `Puzzles.of` refuses a puzzle.
    """
    found = read_boards(path, size=size, symbols=symbols, tier=tier)
    if any(solution is None for solution in found.solutions):
        return Puzzles.of(found.boards, answers)
    return Puzzles(found.stacked, np.stack([solution for solution in found.solutions if solution is not None]))


def read_prompts(path: str | Path) -> list[str]:
    """Read the prompts of a set, in order; other columns are ignored.

    Args:
        path: JSON, a line each or whole, with the key `prompt`; CSV with such a column, or a file whose name ends in
            `.parquet` (needs `pyarrow`, extra `parquet`). Text is UTF-8. Of a file of puzzles that `read_boards` takes,
            each puzzle is put in words (`build_prompt`, template "compact").

    Returns:
        At least one prompt.

    Raises:
        FileNotFoundError: There is no such file.
        PromptSetError: No prompt at all, or a line that is malformed or lacks a prompt. The message names the file and
            the line, for parquet the row, both counted from 1.
    """
    path, columns = Path(path), list[str]()
    try:
        if path.suffix == ".parquet":
            return list(_read_parquet(path))
        text = decoded(path.read_bytes(), str(path))
        records = list(records_in(text, None, None, columns, str(path)))
        if columns[:1] != [PROMPT_COLUMN] or not records:
            return [build_prompt(board, "compact") for board in boards_in(text, str(path)).boards]
    except PuzzleParseError as error:
        raise PromptSetError(str(error)) from None
    for record in records:
        if record.fault:
            raise PromptSetError(f"{path}, {record.place}: {record.fault}")
    return [record.puzzle for record in records]


def _read_parquet(path: Path) -> Iterator[str]:
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
        if not isinstance(prompt, str) or not prompt.strip():
            raise PromptSetError(f"{path}, row {number}: {prompt!r} is no prompt; give a text that is not empty")
        yield prompt
