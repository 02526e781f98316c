"""CJ-GRPO, arXiv:2509.23924: the clipped surrogate at the states that the sampler passed through.

    J = 1/S Σ_s mean over i and over k written in pass s of [ min(R_k A_i, clip(R_k) A_i) − β k3_k ]
    A_i = r_i − mean r

with S passes and R_k as in TraceRL; the two are one but for A where every pass writes as many tokens.

Published code: github.com/yjyddq/EOSER-ASS-RL, `cj_grpo_trainer_semiar.py`. All tokens count, those behind the end too
(`counted = completed`).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from llm_rl.core import group_relative_advantage, masked_mean
from scripts.referee.objectives.copies import Completions, Copies, Surrogate, trajectory_copies


@dataclass(kw_only=True)
class CjGrpo(Surrogate):
    """The code's objective."""

    paper: ClassVar[str] = "2509.23924"
    drawn: ClassVar[bool] = False

    def advantages(self, rewards: Tensor) -> Tensor:
        """Differences from the mean of the group; see `Objective.advantages`."""
        return group_relative_advantage(rewards, scale="none")

    def copies(self, completions: Completions, generator: torch.Generator) -> Copies:
        """One for each pass, nothing is drawn; see `Objective.copies`."""
        return trajectory_copies(completions, completions.steps)

    def loss(
        self, logprobs: Tensor, copies: Copies, advantages: Tensor, old: Tensor | None = None, ref: Tensor | None = None
    ) -> Tensor:
        """See `Objective.loss`."""
        values = self.values(logprobs, old, ref, advantages.reshape(-1, 1, 1))
        return -masked_mean(values, copies.scored, (0, 2)).mean()


PUBLISHED = CjGrpo()
