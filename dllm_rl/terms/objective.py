"""The objective of docs/objective.md, a sum of terms: which of them have a weight, and the options that all share."""

from dataclasses import dataclass, field, fields
from typing import Literal

import torch

from dllm_rl.terms.closed_form import ClosedFormConfig, ExpectedValue, LogExpectation
from dllm_rl.terms.cross_entropy import CrossEntropy, CrossEntropyConfig
from dllm_rl.terms.expected_reward import ExpectedReward, ExpectedRewardConfig
from dllm_rl.terms.judged_decisions import JudgedDecisions, JudgedDecisionsConfig
from dllm_rl.terms.policy_gradient import PolicyGradient, PolicyGradientConfig
from dllm_rl.terms.states import Term
from dllm_rl.terms.values import Values
from llm_rl.core._checks import check_choice

Reduction = Literal["sum", "mean"]
CONFIGS = (
    PolicyGradientConfig,
    ExpectedRewardConfig,
    ClosedFormConfig,
    CrossEntropyConfig,
    JudgedDecisionsConfig,
)
SAMPLED_ALONE = ("clip_low", "clip_high", "advantage_baseline", "advantage_scale")
"""Options of the first term as it is sampled; in closed form it has no ratio, no clip and no advantage."""


@dataclass
class ObjectiveConfig(
    JudgedDecisionsConfig, CrossEntropyConfig, ClosedFormConfig, ExpectedRewardConfig, PolicyGradientConfig
):
    """Parameters of the objective, those of its terms among them.

    Raises:
        ValueError: A value is out of range or a name unknown, or no term has a weight.
    """

    reduction: Reduction = field(
        default="sum", metadata={"help": "Over a trajectory's steps: sum, or mean, independent of their number K."}
    )
    state_fraction: float = field(
        default=1.0, metadata={"help": "Draw this share of the distinct states for an update, weighted by 1/share."}
    )

    def __post_init__(self) -> None:
        for config in CONFIGS:
            config.__post_init__(self)
        check_choice("reduction", self.reduction, Reduction)
        if not 0 < self.state_fraction <= 1:
            raise ValueError(f"state_fraction must lie in (0, 1], got {self.state_fraction}; 1 takes every state")
        if not (self.policy_weight or self.f_weight or self.ce_weight or self.judged_weight):
            raise ValueError(
                "no term of the objective has a weight; set policy_weight, f_weight, ce_weight or judged_weight"
            )
        if self.objective == "closed":
            self._check_closed_form()

    def _check_closed_form(self) -> None:
        defaults = {item.name: item.default for item in fields(ObjectiveConfig)}
        if changed := [
            f"{name}={getattr(self, name)!r}" for name in SAMPLED_ALONE if getattr(self, name) != defaults[name]
        ]:
            raise ValueError(
                f"{', '.join(changed)} means nothing with objective='closed'; leave it out, or set objective='sampled'"
            )
        if min(self.policy_weight, self.f_weight) < 0:
            raise ValueError(
                f"objective='closed' needs weights of 0 or larger, got policy_weight={self.policy_weight} and "
                f"f_weight={self.f_weight}"
            )

    @property
    def needs_values(self) -> bool:
        """Whether the first term is in closed form and has a weight, so that it asks what states are worth."""
        return self.objective == "closed" and self.policy_weight > 0

    def terms(self, values: Values | None = None, generator: torch.Generator | None = None) -> list[Term]:
        """The terms that have a weight.

        Args:
            generator: Source of randomness of judged decisions; None is torch's global one.
            values: What states that follow are worth, needed in closed form alone (`needs_values`).

        Raises:
            ValueError: The values are missing.
        """
        if self.needs_values and values is None:
            raise ValueError(
                f"objective='closed' with policy_weight={self.policy_weight} needs values; pass CellValues(...)"
            )
        found: list[Term] = []
        if self.needs_values and values is not None and self.f_form == "log":
            found.append(LogExpectation(self.policy_weight, values, f_weight=self.f_weight, lam=self.lam))
        else:
            if self.policy_weight and self.objective == "sampled":
                found.append(PolicyGradient(self))
            if self.f_weight:
                found.append(ExpectedReward(self))
            if self.needs_values and values is not None:
                found.append(ExpectedValue(self.policy_weight, values))
        if self.ce_weight:
            found.append(CrossEntropy(self))
        if self.judged_weight:
            found.append(JudgedDecisions(self, generator, lam=self.lam))
        return found
