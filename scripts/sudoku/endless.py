"""Training puzzles without an end, so that none is seen twice."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from dllm_rl import SftDataset, SudokuTask
from sudoku_env import Board, PreFilled, SudokuError, generate, symmetric_images
from sudoku_env.logic import rule_index
from sudoku_env.rating import rate_batch
from sudoku_env.split import in_split

LENGTH = 2**40
"""Number of rows, more than any training takes."""
CANDIDATES = 2**20
"""Puzzle numbers of the generator that a window may draw on."""


class EndlessPuzzles(Dataset[dict[str, Any]]):
    """Rows as those of `SftDataset`, made when they are asked for; row k depends on k and the arguments alone.

    The rows come in windows. The generator draws the originals of a window, of the train split only, and what follows
    them are random images under the symmetries of Sudoku, which stay in that split. To tell the split takes far longer
    than to draw a puzzle; images share the cost.

    Args:
        fill: Makes the pre-filled puzzle of a board.
        task: What kind of problem it is.
        size: Board size.
        clues: Range from which the number of clues is drawn uniformly.
        rule: Rules that solve every puzzle, as `generate` takes them; None: any difficulty.
        singles: The share that is kept of the drawn puzzles which singles solve.
        seed: Random seed.
        originals: Puzzles that are drawn for a window.
        images: Rows of a window for each of these, itself included.

    Raises:
        SudokuError: A number is below 1, there are more originals than a window can draw on, or the share of singles is
            none.
    """

    def __init__(
        self,
        fill: Callable[[Board], PreFilled],
        task: SudokuTask,
        *,
        size: int,
        clues: tuple[int, int],
        rule: str | None,
        seed: int,
        singles: float = 1.0,
        originals: int = 1024,
        images: int = 16,
    ) -> None:
        if not 1 <= originals <= CANDIDATES // 16 or images < 1:
            raise SudokuError(
                f"originals={originals} must lie in [1, {CANDIDATES // 16}] and images={images} be at least 1"
            )
        if not 0 <= singles <= 1:
            raise SudokuError(f"singles={singles} must lie in [0, 1]: it is a share of the puzzles")
        self.fill, self.task = fill, task
        self.identity = {
            "size": size, "clues": list(clues), "rule": rule, "seed": seed, "singles": singles, "originals": originals,
            "images": images,
        }  # fmt: skip
        self.size, self.clues, self.rule, self.seed, self.singles = size, clues, rule, seed, singles
        self.originals, self.images = originals, images
        self._window, self._boards = -1, np.empty((0, size * size), dtype=np.uint8)

    def __len__(self) -> int:
        return LENGTH

    def boards(self, window: int) -> Board:
        """The puzzles of a window, uint8 `(originals · images, n²)`: the originals, an image of each, and so on.

        Raises:
            BoardError: `generate` refuses an argument, or finds too few such puzzles.
        """
        parts: list[Board] = []
        first, missing = window * CANDIDATES, self.originals
        while missing > 0:
            drawn = generate(
                self.originals, size=self.size, clues=self.clues, rule=self.rule, seed=self.seed, first=first
            )
            kept = in_split(drawn.solutions, "train")
            if self.singles < 1:
                easy = rate_batch(drawn.boards)[0] <= rule_index("singles")
                kept &= ~easy | (np.random.default_rng((self.seed, first)).random(len(easy)) < self.singles)
            parts.append(drawn.boards[kept][:missing])
            first, missing = first + self.originals, missing - len(parts[-1])
        return symmetric_images(list(np.concatenate(parts)), self.images, seed=self.seed + window)

    def board(self, index: int) -> Board:
        """The puzzle of a row, uint8 `(n²,)`."""
        window, place = divmod(index, self.originals * self.images)
        if window != self._window:
            self._window, self._boards = window, self.boards(window)
        return self._boards[place]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        rows = SftDataset(self.task.batch([self.fill(self.board(index)) for index in indices]))
        return [rows[number] for number in range(len(rows))]

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]
