"""A baseline that remembers: the mean return of earlier roll-outs, by the number of decisions left.

A return sums over what is left of a trajectory, so returns compare across puzzles and roll-outs where as many decisions
are left. A baseline from earlier roll-outs does not depend on the actions that it is compared with, so it leaves the
policy gradient unbiased (Williams 1992, 'Simple statistical gradient-following algorithms').
"""

from typing import Any

import torch
from torch import Tensor

from llm_rl.core.advantages import ema_update


def decisions_left(decisions: Tensor, steps: int) -> Tensor:
    """int64 `(T, steps)`: decisions left after the action at each step, K − 1 − k; negative beyond the last one.

    Args:
        decisions: int64 `(T,)`, K of each trajectory.
        steps: Columns of the result.
    """
    return decisions[:, None] - 1 - torch.arange(steps, device=decisions.device)


def totals_by_decisions_left(returns: Tensor, decisions: Tensor, size: int) -> Tensor:
    """Sum and number of the returns after which as many decisions are left, fp64 `(2, size)`; totals may be added up.

    Trajectories that ended count with their zeros.

    Args:
        returns: `(T, K)`, G_{k+1} of each action.
        decisions: int64 `(T,)`, decisions of a full trajectory, at most `size`.
        size: Entries for 0, 1, … decisions left.
    """
    left = decisions_left(decisions, returns.shape[1])
    exists = left >= 0
    values = returns[exists].double()
    totals = torch.zeros(2, size, dtype=torch.float64, device=returns.device)
    return totals.index_add(1, left[exists], torch.stack([values, torch.ones_like(values)]))


class MovingMeans:
    """Exponential moving averages of returns, one for each number of things left.

    Args:
        decay: Share of its value that an average keeps at an update, in [0, 1).
        size: How many averages there are.

    Attributes:
        values: fp64 `(size,)` on the CPU; NaN where no return has been seen.
    """

    def __init__(self, decay: float, size: int) -> None:
        self.decay = decay
        self.values = torch.full((size,), torch.nan, dtype=torch.float64)

    def update(self, totals: Tensor) -> None:
        """Take in a roll-out: fp64 `(2, size)`, sum and number of its returns; totals may be added up before."""
        sums, counts = totals.cpu()
        self.values = ema_update(self.values, sums / counts, self.decay)

    def state_dict(self) -> dict[str, Any]:
        """The averages, for a checkpoint."""
        return {"values": self.values.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the averages of a `state_dict`.

        Raises:
            ValueError: It was made for responses of another length.
        """
        values = state["values"]
        if values.shape != self.values.shape:
            raise ValueError(
                f"there are {len(values)} averages, not {len(self.values)}; use the response length that they were "
                "made with"
            )
        self.values = values.to("cpu", torch.float64).clone()


class EmaBaseline(MovingMeans):
    """The mean return for each number of decisions left, 0 to `size` − 1, of `totals_by_decisions_left`."""

    def at(self, decisions: Tensor, steps: int) -> Tensor:
        """The baseline fp32 `(T, steps)` of trajectories of K decisions, int64 `(T,)`; NaN where there is none."""
        left = decisions_left(decisions, steps)
        values = self.values.to(left.device, torch.float32)[left.clamp_min(0)]
        return values.masked_fill(left < 0, torch.nan)
