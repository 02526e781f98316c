"""V(s∪ℓ), what a state that follows is worth: the discounted sum of f from there on, 0 from the first error on.

The first term in closed form (`dllm_rl.terms.closed_form`) weighs each right decision by it. A value is a constant of
the objective: no gradient passes through.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.terms.states import ScoredStates
from llm_rl.core.advantages import ema_update

VALUE_DECAY = 0.9
"""Share of its value that a mean return keeps at each roll-out."""


class Values(ABC):
    """How states that follow are valued."""

    @abstractmethod
    def at(self, states: ScoredStates) -> Tensor:
        """V(s∪ℓ), fp32 `(N, R)` without gradient, 0 or larger at every open position ℓ; anything elsewhere.

        s∪ℓ is the state with the right token at ℓ.
        """


def returns_until_error(rewards: Tensor, wrong: Tensor, gamma: float) -> Tensor:
    """G_k `(T, K)` = f(s_k) + γ G_{k+1}, where G_{k+1} is 0 after a wrong decision.

    It estimates V(s_k) without bias also where trajectories go on after an error, since what a policy does from a state
    on depends on the state alone.

    Args:
        rewards: `(T, K)`, f at each visited state, 0 after the end.
        wrong: bool `(T, K)`, whether decision k was wrong.
        gamma: Discount factor.
    """
    returns = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[:, 0])
    for step in reversed(range(rewards.shape[1])):
        following = rewards[:, step] + gamma * following.masked_fill(wrong[:, step], 0.0)
        returns[:, step] = following
    return returns


def totals_by_masked(record: Rollout, gamma: float, size: int) -> Tensor:
    """Sum and number of `returns_until_error` at the visited states with 0, 1, … masked positions, fp64 `(2, size)`.

    Args:
        record: The roll-out; only trajectories that are alive count.
        gamma: Discount factor.
        size: Largest number of masked positions, plus one.
    """
    live = record.live
    values = returns_until_error(record.visited_rewards, record.wrong, gamma)[live].double()
    totals = torch.zeros(2, size, dtype=torch.float64, device=values.device)
    masked = record.masked[record.state_of[live]]
    return totals.index_add(1, masked, torch.stack([values, torch.ones_like(values)]))


class CellValues(Values):
    """The mean return of the trajectories alive where as many positions are masked, over the roll-outs so far.

    V is then the same for all actions of a state, so F(s) is V times the probability that the next decision is right.
    Numbers of masked positions that no trajectory has met (with several tokens a step there are some) lie on a straight
    line between their neighbors, with 0 where nothing is masked; before the first `update` V is 0.

    Args:
        decay: Share of its value that a mean keeps at an update, in [0, 1).
        length: R, tokens of a response.

    Attributes:
        values: fp64 `(R + 1,)` on the CPU, by the number of masked positions; NaN where no return has been seen.
    """

    def __init__(self, decay: float, length: int) -> None:
        self.decay = decay
        self.values = torch.full((length + 1,), torch.nan, dtype=torch.float64)

    def update(self, totals: Tensor) -> None:
        """Take in a roll-out: fp64 `(2, R + 1)`, sum and number of its returns; totals may be added up before."""
        sums, counts = totals.cpu()
        self.values = ema_update(self.values, sums / counts, self.decay)

    def by_masked(self) -> Tensor:
        """V of a state by its number of masked positions, fp64 `(R + 1,)`, without gaps."""
        values = self.values.numpy()
        seen = np.flatnonzero(~np.isnan(values))
        known = np.concatenate([[0], seen[seen > 0]])
        return torch.from_numpy(np.interp(np.arange(len(values)), known, [0.0, *values[known[1:]]]))

    def at(self, states: ScoredStates) -> Tensor:
        """V by the number of masked positions left after the decision; see `Values.at`."""
        left = states.masked.sum(1) - 1
        values = self.by_masked().to(left.device, states.scores.position_logprobs.dtype)
        return values[left, None].expand(states.masked.shape)

    def state_dict(self) -> dict[str, Any]:
        """The means, for a checkpoint."""
        return {"values": self.values.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the means of a `state_dict`.

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
