"""wd1, arXiv:2507.08838: log-likelihood weighted by advantages, without a ratio.

    J = Σ_i (w⁺_i − w⁻_i) log π(o_i),  w⁺ = softmax(ψ A),  w⁻ = softmax(−ψ A) over a group,  A_i = r_i − mean r

with log π of diffu-GRPO, summed over the tokens. The weights of a group add up to 0 and are 2 ψ A_i / G to first order.

Published code: github.com/xiaohangt/wd1, `rev_grpo_trainer.py`, with ψ = 1 and the softmax over all completions of the
batch: the paper's where a batch is one group. Its samples are those of the policy, not of its mixture with a reference.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from llm_rl.core import group_relative_advantage
from llm_rl.core._options import option
from scripts.referee.objectives.copies import Completions, Copies, whole_copy


@dataclass(kw_only=True)
class Wd1:
    """The paper's objective, a mean over groups; `over_batch=True` is that of the code."""

    paper: ClassVar[str] = "2507.08838"
    drawn: ClassVar[bool] = True
    prompt_rate: float = option(0.15, "Share of the prompt that is masked.")
    sharpness: float = option(1.0, "ψ, what advantages are multiplied with.")
    over_batch: bool = option(False, "Whether weights are those of all groups together.")

    def advantages(self, rewards: Tensor) -> Tensor:
        """Differences from the mean of the group; see `Objective.advantages`."""
        return group_relative_advantage(rewards, scale="none")

    def copies(self, completions: Completions, generator: torch.Generator) -> Copies:
        """One; see `Objective.copies`."""
        return whole_copy(completions, self.prompt_rate, generator)

    def loss(
        self, logprobs: Tensor, copies: Copies, advantages: Tensor, old: Tensor | None = None, ref: Tensor | None = None
    ) -> Tensor:
        """See `Objective.loss`; neither the policy that sampled nor a reference is asked."""
        scaled = self.sharpness * (advantages.reshape(1, -1) if self.over_batch else advantages)
        weights = (scaled.softmax(1) - (-scaled).softmax(1)) / len(scaled)
        return -(weights.reshape(-1) * copies.token_estimates(logprobs).sum(1)).sum()


PUBLISHED = Wd1(over_batch=True)
