"""Training puzzles as a data set."""

from collections.abc import Sequence

from torch.utils.data import Dataset

from sudoku_env.tokens import PreFilled


class PromptDataset(Dataset[PreFilled]):
    """Pre-filled puzzles as a torch data set."""

    def __init__(self, puzzles: Sequence[PreFilled]) -> None:
        self.puzzles = puzzles

    def __len__(self) -> int:
        return len(self.puzzles)

    def __getitem__(self, index: int) -> PreFilled:
        return self.puzzles[index]
