"""Training puzzles as a data set, and the order in which roll-outs take them."""

from collections.abc import Sequence

from torch.utils.data import Dataset

from llm_rl.sampler import RepeatedBatchSampler
from sudoku_env.tokens import PreFilled

__all__ = ["PromptDataset", "RepeatedBatchSampler"]


class PromptDataset(Dataset[PreFilled]):
    """Pre-filled puzzles as a torch data set."""

    def __init__(self, puzzles: Sequence[PreFilled]) -> None:
        self.puzzles = puzzles

    def __len__(self) -> int:
        return len(self.puzzles)

    def __getitem__(self, index: int) -> PreFilled:
        return self.puzzles[index]
