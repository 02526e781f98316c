"""A learning rate that is held until a metric levels off, and then falls linearly to zero."""

from typing import Any


class HoldThenAnneal:
    """Warm-up, hold, linear anneal; the end of the hold may come early.

    Args:
        warmup_steps: Updates while the rate rises linearly from 0.
        hold_steps: Updates before annealing at the latest, warm-up included.
        anneal_steps: Updates while the rate falls to 0.
        patience: The hold ends once so many observed values in a row did not exceed the best by `min_gain`; 0 never.
        min_gain: Smallest improvement that counts.

    Attributes:
        hold_steps: As given. A run that goes on with another number anneals from there, unless its hold has ended.
        ended: The update at which the hold ended early; None if it did not.

    Raises:
        ValueError: `hold_steps` is shorter than the warm-up, or a number is negative.
    """

    def __init__(
        self, warmup_steps: int, hold_steps: int, anneal_steps: int, *, patience: int = 0, min_gain: float = 0.0
    ) -> None:
        if not 0 <= warmup_steps <= hold_steps or min(anneal_steps, patience, min_gain) < 0:
            raise ValueError(
                f"warmup_steps={warmup_steps} must lie in [0, hold_steps={hold_steps}], and "
                f"anneal_steps={anneal_steps}, patience={patience} and min_gain={min_gain} be 0 or larger"
            )
        self.warmup_steps, self.hold_steps, self.anneal_steps = warmup_steps, hold_steps, anneal_steps
        self.patience, self.min_gain = patience, min_gain
        self.ended: int | None = None
        self.best, self.stale = float("-inf"), 0

    @property
    def anneal_from(self) -> int:
        """The update after which the rate falls."""
        return self.hold_steps if self.ended is None else self.ended

    @property
    def last_step(self) -> int:
        """The update after which training ends."""
        return self.anneal_from + self.anneal_steps

    def factor(self, step: int) -> float:
        """Share of the full rate after `step` updates."""
        if step < self.warmup_steps:
            return step / self.warmup_steps
        if step < self.anneal_from:
            return 1.0
        return max(0.0, 1.0 - (step - self.anneal_from) / max(1, self.anneal_steps))

    def observe(self, step: int, value: float) -> None:
        """Take the metric (larger is better) after `step` updates; ends the hold there if it has levelled off."""
        if not self.patience or step >= self.anneal_from:
            return
        if value > self.best + self.min_gain:
            self.best, self.stale = value, 0
        else:
            self.stale += 1
        if self.stale >= self.patience and step >= self.warmup_steps:
            self.ended = step

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on."""
        return {"ended": self.ended, "best": self.best, "stale": self.stale}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned."""
        self.ended, self.best, self.stale = state["ended"], state["best"], state["stale"]
