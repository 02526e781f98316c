"""TraceRL, arXiv:2509.06949: the clipped surrogate at the states that the sampler passed through.

    J = 1/G Σ_i 1/|τ_i| Σ_t 1/|τ_i(t)| Σ_{k ∈ τ_i(t)} min(R_k A_i, clip(R_k) A_i) − β KL,  A_i = (r_i − mean r) / std r

with τ_i(t) the tokens written in pass t and R_k of log p(o_k | what was written before pass t). `shrink` passes in a
row are made one. Which positions a pass takes has no part in R.

Published code: github.com/Gen-Verse/dLLM-RL, `train/rl_llada.py`. It takes the mean over all states of a batch, so that
a long trajectory weighs more, and its k3, summed over the tokens of a state, is from the policy that sampled
(`ref=old`). Standard deviations are those of the population, without a floor.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from llm_rl.core import Reduction, aggregate, approx_kl, group_relative_advantage, masked_mean, masked_sum
from llm_rl.core._options import option
from scripts.referee.objectives.copies import Completions, Copies, Surrogate, trajectory_copies


@dataclass(kw_only=True)
class TraceRl(Surrogate):
    """The paper's objective; `reduction="mean"` is that of the code."""

    paper: ClassVar[str] = "2509.06949"
    drawn: ClassVar[bool] = False
    kl_weight: float = option(0.01, "Weight of the divergence from the reference.")
    shrink: int = option(1, "Passes that are made one.")
    reduction: Reduction = option("seq_mean_token_mean", "Normalizer of the sum over states.")

    def advantages(self, rewards: Tensor) -> Tensor:
        """Standardized in the group; see `Objective.advantages`."""
        return group_relative_advantage(rewards)

    def copies(self, completions: Completions, generator: torch.Generator) -> Copies:
        """One for each state, nothing is drawn; see `Objective.copies`."""
        return trajectory_copies(completions, completions.steps, self.shrink)

    def loss(
        self, logprobs: Tensor, copies: Copies, advantages: Tensor, old: Tensor | None = None, ref: Tensor | None = None
    ) -> Tensor:
        """See `Objective.loss`."""
        values = self.values(logprobs, old, None, advantages.reshape(-1, 1, 1))
        states = masked_mean(values, copies.scored, -1)  # (B, M)
        if ref is not None:
            divergence = approx_kl(logprobs, ref)
            states = states - self.kl_weight * masked_sum(divergence, copies.scored, -1)
        return -aggregate(states, copies.scored.any(-1), self.reduction)


PUBLISHED = TraceRl(reduction="mean")
