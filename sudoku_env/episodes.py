"""What the two environments share: where puzzles come from, reset options, render modes."""

from operator import index
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board
from sudoku_env.errors import SudokuError
from sudoku_env.generator import generate
from sudoku_env.progress import Progress
from sudoku_env.rendering import render_ansi, render_rgb

DEFAULT_CLUES: dict[int, tuple[int, int]] = {4: (5, 7), 6: (14, 18), 9: (30, 36), 16: (140, 160)}


def draw_puzzle(size: int, clues: int | tuple[int, int], rng: np.random.Generator) -> tuple[Board, Board]:
    """One generated puzzle that singles solve, and its solution, each uint8 `(n²,)`; seeded by the generator."""
    drawn = generate(1, size=size, clues=clues, seed=int(rng.integers(2**63)))
    return drawn.boards[0], drawn.solutions[0]


def pick_index(count: int, options: dict[str, Any] | None, rng: np.random.Generator) -> int:
    """Which of `count` puzzles to take: `options["index"]` if it is there, else a random one; 0 if count is 0.

    Raises:
        SudokuError: An option is unknown, or the index is outside the puzzles.
    """
    options = {} if options is None else options
    if unknown := set(options) - {"index"}:
        raise SudokuError(f"reset options {sorted(unknown)} are unknown; the only one is 'index'")
    if "index" not in options:
        return int(rng.integers(count)) if count else 0
    choice = index(options["index"])
    if not 0 <= choice < count:
        raise SudokuError(f"index {choice} is outside the {count} given puzzles")
    return choice


def check_render_mode(mode: str | None) -> str | None:
    """The render mode, if it is one.

    Raises:
        SudokuError: It is not.
    """
    if mode not in (None, "ansi", "rgb_array"):
        raise SudokuError(f"render mode {mode!r} is unknown; choose 'ansi', 'rgb_array' or None")
    return mode


def render_progress(progress: Progress | None, mode: str | None) -> str | NDArray[np.uint8] | None:
    """What `render()` gives in a mode; None without one.

    Raises:
        gymnasium.error.ResetNeeded: No episode has begun.
    """
    if progress is None:
        raise gymnasium.error.ResetNeeded("there is nothing to render; call reset() first")
    if mode is None:
        return None
    return render_ansi(progress.view()) if mode == "ansi" else render_rgb(progress.view())
