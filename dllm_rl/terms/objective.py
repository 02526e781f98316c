"""The objective of docs/objective.md, a sum of terms: which of them have a weight, and the options that all share."""

from dataclasses import dataclass
from typing import Literal

from dllm_rl.decoding.noise import StateNoise
from dllm_rl.terms.cross_entropy import CrossEntropy, CrossEntropyConfig
from dllm_rl.terms.expected_reward import ExpectedReward, ExpectedRewardConfig
from dllm_rl.terms.judged_decisions import JudgedDecisions
from dllm_rl.terms.kept_cells import KeptCells, KeptConfig
from dllm_rl.terms.policy_gradient import PolicyGradient, PolicyGradientConfig
from dllm_rl.terms.states import Term
from llm_rl.core._checks import check_choice
from llm_rl.core._options import option

Reduction = Literal["sum", "mean"]
CONFIGS = (PolicyGradientConfig, ExpectedRewardConfig, CrossEntropyConfig, KeptConfig)


@dataclass
class ObjectiveConfig(KeptConfig, CrossEntropyConfig, ExpectedRewardConfig, PolicyGradientConfig):
    """Parameters of the objective, those of its terms among them.

    Raises:
        ValueError: A value is out of range or a name unknown, or no term has a weight.
    """

    reduction: Reduction = option("sum", "Over a trajectory's steps: sum, or mean, independent of their number K.")
    state_fraction: float = option(1.0, "Draw this share of the distinct states for an update, weighted by 1/share.")

    def __post_init__(self) -> None:
        for config in CONFIGS:
            config.__post_init__(self)
        check_choice("reduction", self.reduction, Reduction)
        if not 0 < self.state_fraction <= 1:
            raise ValueError(f"state_fraction must lie in (0, 1], got {self.state_fraction}; 1 takes every state")
        if not (self.policy_weight or self.f_weight or self.ce_weight or self.judged_weight or self.kept_weight):
            raise ValueError(
                "no term of the objective has a weight; set policy_weight, f_weight, ce_weight, judged_weight or "
                "kept_weight"
            )

    def terms(self, noise: StateNoise) -> list[Term]:
        """The terms that have a weight.

        Args:
            noise: Where judged decisions and what is kept come from.
        """
        found: list[Term] = []
        if self.policy_weight:
            found.append(PolicyGradient(self))
        if self.f_weight:
            found.append(ExpectedReward(self))
        if self.ce_weight:
            found.append(CrossEntropy(self))
        if self.judged_weight:
            found.append(JudgedDecisions(self, noise, lam=self.lam))
        if self.kept_weight:
            found.append(KeptCells(self, noise))
        return found
