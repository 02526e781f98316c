"""A bonus for the policy's entropy, whose weight holds the entropy at a target (Skywork-OR1, arXiv:2505.22312)."""

import math
from typing import Any


class EntropyBonus:
    """The weight α of +α·H in the objective, H the mean entropy of the tokens that count.

    Without a target α stays. With one, α moves by `step` after each optimizer step, up where the entropy is at most the
    target and down where it is above it, within [0, `highest`]; and it acts only in the steps after an entropy at or
    below the target.

    Args:
        weight: α at the start, ≥ 0.
        target: The entropy to hold in nats; None: none.
        step: What α moves by.
        highest: Largest α.

    Attributes:
        weight: α now.
    """

    def __init__(self, weight: float, target: float | None, step: float, highest: float) -> None:
        self.weight, self.target, self.step, self.highest = weight, target, step, highest
        self._last = math.inf  # the entropy of the last optimizer step; none is below a target yet
        self._sum, self._count = 0.0, 0

    @property
    def acts(self) -> bool:
        """Whether there is a bonus in this run."""
        return self.weight > 0 or self.target is not None

    @property
    def acting_weight(self) -> float:
        """α of the present optimizer step."""
        return self.weight if self.target is None or self._last <= self.target else 0.0

    def add(self, total: float, count: int) -> None:
        """Take in the entropies of a micro-batch: their sum and number."""
        self._sum, self._count = self._sum + total, self._count + count

    def window(self) -> tuple[float, int]:
        """Sum and number since the last update, of this process."""
        return self._sum, self._count

    def update(self, total: float, count: int) -> None:
        """End an optimizer step with the sum and number of the entropies of all processes."""
        self._sum, self._count = 0.0, 0
        if self.target is None or not count:
            return
        self._last = total / count
        change = self.step if self._last <= self.target else -self.step
        self.weight = min(max(self.weight + change, 0.0), self.highest)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"weight": self.weight, "last": None if math.isinf(self._last) else self._last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned."""
        self.weight = state["weight"]
        self._last = math.inf if state["last"] is None else state["last"]
        self._sum, self._count = 0.0, 0
