"""A bonus for the policy's entropy, whose weight holds the entropy at a target (Skywork-OR1, arXiv:2505.22312)."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from llm_rl.core import PolicyTensors, masked_sum
from llm_rl.core._checks import check_rate
from llm_rl.core._options import option
from llm_rl.grpo.extensions.base import Extension
from llm_rl.rollout.data import RolloutBatch


@dataclass
class EntropyBonus(Extension):
    """Adds α · H to the objective, H the mean entropy of the tokens of the optimizer step that count.

    Without a target α stays. With one, α moves by `coef_delta` after each step, up where the entropy is at most the
    target and down where it is above it, within [0, `coef_max`]; and it acts only in the steps after an entropy at or
    below the target. Logs "entropy_coef", the α that acts.

    Attributes:
        weight: α now.

    Raises:
        ValueError: A number is out of range, or does nothing.
    """

    coef: float = option(0.0, "α, the weight of the entropy, at the start.")
    target: float | None = option(None, "Entropy in nats that the weight is moved to hold; None: it stays.")
    coef_delta: float = option(0.005, "What the weight moves by after each step, with a target.")
    coef_max: float = option(1.0, "Largest weight, with a target.")

    def __post_init__(self) -> None:
        for name in ("coef", "coef_delta", "coef_max"):
            check_rate(name, getattr(self, name))
        if self.target is not None and not self.target >= 0:
            raise ValueError(f"target is {self.target}; an entropy in nats is 0 or greater")
        if self.target is None and (self.coef_delta, self.coef_max) != (0.005, 1.0):
            raise ValueError("coef_delta and coef_max do nothing without target; set it")
        if self.target is None and not self.coef:
            raise ValueError("EntropyBonus does nothing with coef 0 and no target; set one of them")
        self.weight = self.coef
        self._last = math.inf  # the entropy of the last optimizer step; none is below a target yet
        self._sum, self._count = 0.0, 0

    @property
    def acting_weight(self) -> float:
        """α of the present optimizer step."""
        return self.weight if self.target is None or self._last <= self.target else 0.0

    def loss(self, loss: Tensor, model: nn.Module, policy: PolicyTensors, batch: RolloutBatch) -> Tensor:
        """The loss less this micro-batch's share of α · H; at the step's last one α is moved."""
        assert batch.tokens is not None and policy.entropy is not None
        total = masked_sum(policy.entropy, policy.mask)
        self._sum, self._count = self._sum + total.item(), self._count + int(policy.mask.sum())
        self.trainer.metrics.add("entropy_coef", self.acting_weight)
        loss = loss - self.acting_weight * total / batch.tokens.clamp(min=1)
        if self.trainer.accelerator.sync_gradients:
            window = torch.tensor([self._sum, self._count], dtype=torch.float64, device=total.device)
            both = self.trainer.accelerator.reduce(window, reduction="sum")
            self.move(float(both[0]), int(both[1]))
        return loss

    def move(self, total: float, count: int) -> None:
        """End an optimizer step with the sum and number of the entropies of all processes."""
        self._sum, self._count = 0.0, 0
        if self.target is None or not count:
            return
        self._last = total / count
        change = self.coef_delta if self._last <= self.target else -self.coef_delta
        self.weight = min(max(self.weight + change, 0.0), self.coef_max)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"weight": self.weight, "last": None if math.isinf(self._last) else self._last}

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Go on from what `state_dict` returned."""
        assert state is not None
        self.weight = state["weight"]
        self._last = math.inf if state["last"] is None else state["last"]
        self._sum, self._count = 0.0, 0
