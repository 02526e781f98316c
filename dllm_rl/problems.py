"""Training problems as a data set."""

from collections.abc import Sequence
from typing import Any

from torch.utils.data import Dataset


class ProblemDataset(Dataset[Any]):
    """Problems of a task as a torch data set."""

    def __init__(self, problems: Sequence[Any]) -> None:
        self.problems = problems

    def __len__(self) -> int:
        return len(self.problems)

    def __getitem__(self, index: int) -> Any:
        return self.problems[index]
