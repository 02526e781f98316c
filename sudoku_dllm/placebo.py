"""The placebo: Sudoku in which every masked cell counts as definite, to tell what logic adds to a training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dllm_rl.sudoku import PuzzleBatch, SudokuTask
from sudoku_env.prompts.tokens import PreFilled, TokenLayout


class PlaceboBatch(PuzzleBatch):
    """Puzzles whose S1 are all masked cells, whatever follows from the board."""

    def definite(self, responses: Tensor, of: Tensor | None = None) -> Tensor:
        """S1, bool `(N, R)`: the masked cells of responses `(N, R)`."""
        return self.judged[0] & (responses == self.mask_id)  # the map, the same for puzzles of one layout


@dataclass(frozen=True)
class PlaceboTask(SudokuTask):
    """`SudokuTask` without logic: its `rule` means nothing."""

    record_classes: ClassVar[tuple[type, ...]] = (PlaceboBatch, TokenLayout)

    def batch(self, problems: Sequence[PreFilled]) -> PlaceboBatch:
        """The puzzles as tensors; it raises what `SudokuTask.batch` does."""
        return PlaceboBatch(**vars(super().batch(problems)))
