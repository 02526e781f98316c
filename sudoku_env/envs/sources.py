"""Where the environments' puzzles come from: a source of their own choice, by default the puzzles of the package."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from sudoku_env.answers import check_answers
from sudoku_env.board import as_boards, geometry, size_of
from sudoku_env.errors import BoardError, SudokuError
from sudoku_env.prompts.text import parse_puzzle
from sudoku_env.puzzles import Puzzles, default_puzzles


class PuzzleSource(Protocol):
    """What the environments ask of a source of puzzles; at every reset each puzzle is equally likely."""

    @property
    def puzzles(self) -> Puzzles:
        """The puzzles, of one size, each with one solution (several where any answer is right) and a blank.

        Raises:
            SudokuError: The source has puzzles of several sizes.
        """

    @property
    def prompts(self) -> Sequence[str] | None:
        """A prompt for each puzzle; None leaves it to `SudokuUnmask-v0` to put the puzzles in words."""

    @property
    def shuffled(self) -> bool:
        """Whether every reset rearranges its puzzle by a random symmetry of Sudoku."""


@dataclass(frozen=True, eq=False)
class PuzzlePool:
    """Puzzles with their solutions, as `default_puzzles`, `generate`, `read_puzzles` and `Puzzles.of` give them.

    ```python
    PuzzlePool(default_puzzles(4), shuffled=True)
    PuzzlePool(generate(256, size=9, clues=(30, 36), rule="singles", seed=0))
    PuzzlePool(Puzzles.of(["1...|..3.|.1..|...2"]))
    ```

    Attributes:
        puzzles: The puzzles; that each has only one solution is not checked.
        shuffled: Whether every reset of `Sudoku-v0` rearranges its puzzle by a random symmetry of Sudoku (digits
            relabeled; bands, stacks and the lines in them permuted; transposed where boxes are square), so that puzzles
            hardly ever repeat: a 9×9 one has about 1.2 × 10¹² images. `SudokuUnmask-v0` tokenizes each prompt once and
            refuses it.

    Raises:
        BoardError: There is no puzzle, a puzzle has no blank, or a solution does not belong to it.
        SudokuError: These are no `Puzzles`.
    """

    puzzles: Puzzles
    shuffled: bool = False

    def __post_init__(self) -> None:
        check_puzzles(self.puzzles)

    @property
    def prompts(self) -> None:
        """None: `SudokuUnmask-v0` puts the puzzles in words."""


class PromptPool:
    """Texts that hold one puzzle each.

    ```python
    PromptPool(["sudoku 4x4 1..4..1221...3.."])
    PromptPool(read_prompts("data/sudoku6x6_test.jsonl"))
    PromptPool([build_prompt(board, "rules") for board in default_puzzles(9).boards])
    ```

    It is no dataclass, which the JSON form of an environment's spec would turn into a dictionary.

    Args:
        prompts: The texts. For `SudokuUnmask-v0`, which fills grids of different sizes one after the other, their
            puzzles may have different sizes.
        answers: The right answers, as the environment has them: with "any" puzzles may have several solutions, and a
            grid may be blank.

    Raises:
        PuzzleParseError: A prompt holds no puzzle, several puzzles, or one that is malformed.
        SudokuError: This is no list of at least one text, or `answers` is unknown.
    """

    def __init__(self, prompts: Sequence[str], answers: str = "one") -> None:
        if isinstance(prompts, str) or not len(prompts) or not all(isinstance(text, str) for text in prompts):
            raise SudokuError(f"prompts must be a list of at least one text, got {repr(prompts)[:200]}")
        self.answers = check_answers(answers)
        for text in prompts:
            parse_puzzle(text, self.answers)
        self.prompts = list(prompts)

    @property
    def shuffled(self) -> bool:
        """False: a text says what its puzzle is."""
        return False

    @cached_property
    def puzzles(self) -> Puzzles:
        """The puzzles that `parse_puzzle` finds in the prompts, and their solutions.

        Raises:
            BoardError: The puzzles have different sizes, or one has no blank, no solution, or several where only one
                answer is right.
        """
        return Puzzles.of([parse_puzzle(text, self.answers) for text in self.prompts], self.answers)


def check_puzzles(puzzles: Any) -> Puzzles:
    """The puzzles, if they can be played.

    Raises:
        BoardError: There is no puzzle, a puzzle has no blank, or a solution does not belong to it.
        SudokuError: These are no `Puzzles`.
    """
    if not isinstance(puzzles, Puzzles):
        raise SudokuError(f"expected Puzzles, got {type(puzzles).__name__}; Puzzles.of(boards) makes them of boards")
    boards, solutions = as_boards(puzzles.boards), as_boards(puzzles.solutions)
    if boards.ndim != 2 or boards.shape != solutions.shape or not len(boards):
        raise BoardError(f"expected boards and solutions (N, n²), N > 0, got {boards.shape} and {solutions.shape}")
    table = geometry(size_of(boards.shape[1]))
    digits = np.sort(solutions[:, table.units], axis=-1)  # (N, 3n, n)
    wrong = (digits != np.arange(1, table.size + 1)).any((1, 2)) | ((boards > 0) & (boards != solutions)).any(1)
    for fault, rows in (("a solution that does not belong to it", wrong), ("no blank to fill", boards.all(1))):
        if rows.any():
            raise BoardError(f"puzzle {int(np.argmax(rows))} has {fault}; leave it out")
    return puzzles


def source_of(source: Any, size: int | None, default_size: int, *, shuffled: bool) -> PuzzleSource:
    """The source that was given; without one the puzzles of the package, of a size or of the default one.

    Raises:
        SudokuError: The source is something else, or a size was given too.
        BoardError: The package has no puzzles of the size.
    """
    if source is None:
        return PuzzlePool(default_puzzles(default_size if size is None else size), shuffled)
    if size is not None:
        raise SudokuError(f"size={size!r} is for the puzzles of the package; leave it out, the source tells the size")
    if not (hasattr(source, "prompts") and hasattr(source, "shuffled")):
        raise SudokuError(
            f"source must be a PuzzleSource, got {type(source).__name__}; pass PuzzlePool(puzzles), such as "
            "PuzzlePool(default_puzzles(9)), or PromptPool(texts)"
        )
    checked: PuzzleSource = source
    return checked
