"""What the environments share: streams of randomness, reset options, checks of actions and rewards, render modes."""

from collections.abc import Callable
from math import isfinite
from numbers import Real
from operator import index
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sudoku_env.envs.progress import BoardView
from sudoku_env.envs.rendering import render_ansi, render_rgb
from sudoku_env.errors import SudokuError
from sudoku_env.kernels.play import draw_indices


class Streams:
    """One random stream (`kernels.random`) for each of B environments, begun by a generator of Gymnasium's.

    Attributes:
        states: uint64 `(B,)`.
    """

    def __init__(self, count: int) -> None:
        self.states = np.zeros(count, dtype=np.uint64)
        self._source: np.random.Generator | None = None

    def follow(self, generator: np.random.Generator) -> None:
        """Begin all streams anew if this is another generator than the last one; else let them go on."""
        if generator is not self._source:
            self.states[:] = generator.integers(2**64, size=self.states.size, dtype=np.uint64)
            self._source = generator

    def seed(self, row: int, seed: int) -> None:
        """Begin one stream as `follow` does in a single environment that is reset with this seed."""
        generator, _ = gymnasium.utils.seeding.np_random(seed)
        self.states[row : row + 1] = generator.integers(2**64, size=1, dtype=np.uint64)

    def draw(self, count: int, rows: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """A random index below `count` from each of the chosen streams, bool `(B,)`, or all: int64 `(rows,)`."""
        chosen = np.arange(self.states.size) if rows is None else np.flatnonzero(rows)
        indices = np.empty(chosen.size, dtype=np.int64)
        draw_indices(chosen, self.states, count, indices)
        return indices

    def accept(self, generator: np.random.Generator) -> None:
        """Let the streams go on although the generator is another one."""
        self._source = generator


def chosen_index(options: dict[str, Any] | None, count: int) -> int:
    """The index in `options` of one of `count` puzzles, or −1 if a random one is wanted.

    Raises:
        SudokuError: An option is unknown, or the index is outside the puzzles.
    """
    if not options:
        return -1
    if unknown := set(options) - {"index"}:
        raise SudokuError(f"reset options {sorted(unknown)} are unknown; the only one is 'index'")
    try:
        choice = index(options["index"])
    except TypeError:
        raise SudokuError(f"index must be a whole number, got {options['index']!r}") from None
    if not 0 <= choice < count:
        why = "" if count else ", as every reset rearranges its puzzle; pass a source that is not shuffled"
        raise SudokuError(f"index {choice} is outside the {count} puzzles that can be picked{why}")
    return choice


def check_number(
    name: str, value: float, wanted: str = "a finite number", fits: Callable[[float], bool] = isfinite
) -> float:
    """A number of the rules as a float; a `SudokuError`, which says what is `wanted`, where it does not fit."""
    if not isinstance(value, Real) or not fits(value):
        raise SudokuError(f"{name} must be {wanted}, got {value!r}")
    return float(value)


def check_count(name: str, count: Any) -> int:
    """A count of at least 1 as an integer."""
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
        raise SudokuError(f"{name} must be an integer of at least 1, got {count!r}")
    return int(count)


def as_integers(action: Any, shape: tuple[int, ...], entries: str) -> NDArray[Any]:
    """What a caller passed, anything at all, as an array of any integer type.

    Raises:
        gymnasium.error.InvalidAction: It is something else, or of another shape; the message says what `entries` are.
    """
    try:
        given = np.asarray(action)
    except (TypeError, ValueError):  # rows of different lengths
        given = np.array(None)
    if given.dtype.kind not in "iu" or given.shape != shape:
        raise gymnasium.error.InvalidAction(
            f"expected integers of shape {shape}, {entries}, got {given.dtype} with shape {given.shape}: action "
            f"{repr(action)[:200]}"
        )
    return given


def check_render_mode(mode: str | None) -> str | None:
    """The render mode, if it is one; a `SudokuError` if not."""
    if mode not in (None, "ansi", "rgb_array"):
        raise SudokuError(f"render_mode {mode!r} is unknown; choose 'ansi', 'rgb_array' or None")
    return mode


def render_view(view: BoardView, mode: str) -> str | NDArray[np.uint8]:
    """A board in a render mode: text with terminal colors, or uint8 `(height, width, 3)`."""
    return render_ansi(view) if mode == "ansi" else render_rgb(view)
