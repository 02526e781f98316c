"""The game's beginning: the critic alone learns until it is right often enough for its word to be a reward."""

from collections import deque
from collections.abc import Sequence
from typing import Any

LEAST_LABELS = 64
"""Labels that an accuracy is taken over, at least: with fewer a critic that guesses comes to any share by chance."""


class CriticWarmUp:
    """Counts what the critic of all processes tells apart, until it is right often enough; then it is over for good.

    That is so at `accuracy`, the share of labels of different answers, ties left out, over the latest roll-outs that
    have `LEAST_LABELS` together; with 0 it never begins. `over` says whether the policy learns.
    """

    def __init__(self, accuracy: float) -> None:
        self.accuracy, self.over = accuracy, accuracy == 0
        self._counts = deque[tuple[int, int]]()

    def add(self, counts: Sequence[tuple[int, int]]) -> None:
        """What each process's critic told apart in a roll-out, as `llm_rl.raro.critic.told_apart` says."""
        right, told = (sum(each) for each in zip(*counts, strict=True))
        self._counts.append((right, told))
        # The latest roll-outs that have labels enough; before them the critic was another one.
        total = sum(told for _, told in self._counts)
        while total - self._counts[0][1] >= LEAST_LABELS:
            total -= self._counts.popleft()[1]
        if total >= LEAST_LABELS:
            self.over = sum(right for right, _ in self._counts) >= self.accuracy * total

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"over": self.over, "counts": [list(counts) for counts in self._counts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.over = state["over"] or self.accuracy == 0
        self._counts = deque((right, told) for right, told in state["counts"])
