"""Importance weights of an engine whose log-probabilities are not the trainer's; see `llm_rl.core.mismatch`."""

import math
from dataclasses import dataclass

from torch import Tensor

from llm_rl.core import PolicyTensors, masked_sum
from llm_rl.core._checks import check_choices, check_positive
from llm_rl.core._options import option
from llm_rl.core.mismatch import CorrectionLevel, CorrectionMode, importance_weight
from llm_rl.grpo.extensions.base import Extension
from llm_rl.rollout.data import RolloutBatch


@dataclass
class ImportanceCorrection(Extension):
    """Multiplies a token's objective by trainer / engine probability at sampling, `core.mismatch.importance_weight`.

    Logs "importance_weight_mean" and "importance_weight_capped_frac", the share of tokens at or beyond a bound.

    Raises:
        ValueError: A bound is out of range, a name unknown, or an option does nothing; in training, the engine gives no
            log-probabilities.
    """

    cap: float | None = option(2.0, "Largest weight; None: no bound.")
    floor: float | None = option(None, "Smallest weight; None: no bound.")
    level: CorrectionLevel = option("token", "One weight a token, or one a sequence, the product over its tokens.")
    mode: CorrectionMode = option("truncate", "Weights beyond a bound are moved to it (truncate) or 0 (mask).")

    def __post_init__(self) -> None:
        check_choices(self)
        for name, bound in (("cap", self.cap), ("floor", self.floor)):
            if bound is not None:
                check_positive(name, bound)
        if self.cap is not None and self.floor is not None and self.floor > self.cap:
            raise ValueError(f"floor is {self.floor}, above cap = {self.cap}")
        if self.mode == "mask" and self.cap is None and self.floor is None:
            raise ValueError("mode='mask' does nothing without a bound; set cap or floor")

    def objective(self, objective: Tensor, policy: PolicyTensors, batch: RolloutBatch) -> Tensor:
        """The objective times the weights."""
        engine_logps, mask, metrics = batch.sampling_per_token_logps, policy.mask, self.trainer.metrics
        if engine_logps is None:
            raise ValueError(
                "ImportanceCorrection needs the engine's log-probabilities, but the engine returned none; use an "
                "engine that does, or leave ImportanceCorrection out"
            )
        low, high = self.floor or 0.0, math.inf if self.cap is None else self.cap
        bounds = {"level": self.level, "mode": self.mode, "low": low, "high": high}
        weight = importance_weight(policy.old_logprobs, engine_logps, mask, **bounds)  # type: ignore[arg-type]
        beyond = (weight <= low) | (weight >= high) if self.mode == "truncate" else weight == 0
        metrics.add_ratio("importance_weight_mean", masked_sum(weight, mask), mask.sum())
        metrics.add_ratio("importance_weight_capped_frac", masked_sum(beyond.float(), mask), mask.sum())
        return objective * weight
