"""The rules of a game in words: what it pays, what a hint costs, how long it lasts and what is shown."""

from dataclasses import dataclass

import numpy as np

from sudoku_env.chat.game import VALUES
from sudoku_env.envs.episodes import check_count
from sudoku_env.errors import SudokuError


@dataclass(frozen=True)
class TextRules:
    """The rules of `SudokuText-v0`.

    Attributes:
        reward: A key of `VALUES`.
        hint_cost: The cost of a hint of grade 1, in blanks.
        max_turns: Turns of an episode; None: 2n².
        max_characters: Characters of a message. A longer one is not read, and its turn is spent.
        show_board: Whether replies show the board.
        tell_dead_ends: Whether a reply says so when a digit leaves the board without a solution.

    Raises:
        SudokuError: A rule is unknown or out of range.
    """

    reward: str = "solved"
    hint_cost: float = 1.0
    max_turns: int | None = None
    max_characters: int = 4096
    show_board: bool = True
    tell_dead_ends: bool = False

    def __post_init__(self) -> None:
        if self.reward not in VALUES:
            raise SudokuError(f"reward {self.reward!r} is unknown; choose one of {list(VALUES)}")
        if not 0 <= self.hint_cost < np.inf:
            raise SudokuError(f"hint_cost must be a number of at least 0, got {self.hint_cost!r}")
        if self.max_turns is not None:
            check_count("max_turns (None: 2n²)", self.max_turns)
        check_count("max_characters", self.max_characters)
        for name in ("show_board", "tell_dead_ends"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise SudokuError(f"{name} must be True or False, got {getattr(self, name)!r}")

    def turns(self, size: int) -> int:
        """The turns of an episode on a board of a size."""
        return 2 * size * size if self.max_turns is None else self.max_turns
