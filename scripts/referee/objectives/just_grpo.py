"""JustGRPO, arXiv:2601.15165: GRPO of a sampler that writes from left to right, one token a pass.

    log π(o_k) = log p(o_k | prompt, o_<k, the rest masked)
    J = 1/G Σ_i 1/T Σ_k min(R_k A_i, clip(R_k) A_i),  A_i = (r_i − mean r) / (std r + 10⁻⁴), the std that of a sample

It is exact for that sampler and takes T passes a completion.

Published code: github.com/LeapLabTHU/JustGRPO, `grpo.py`. R is p over its own value and so always 1 (no
`old`): the clip never acts. The sum over completions is divided by the number of those with A ≠ 0
(`over_valid=True`), and all T tokens count, those behind the end too (`counted = completed`).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from llm_rl.core import group_relative_advantage, masked_sum
from llm_rl.core._options import option
from scripts.referee.objectives.copies import Completions, Copies, Surrogate, trajectory_copies


@dataclass(kw_only=True)
class JustGrpo(Surrogate):
    """The paper's objective; `over_valid=True`, without `old`, is that of the code."""

    paper: ClassVar[str] = "2601.15165"
    drawn: ClassVar[bool] = False
    over_valid: bool = option(False, "Whether to divide by the completions with A ≠ 0.")

    def advantages(self, rewards: Tensor) -> Tensor:
        """Standardized in the group; see `Objective.advantages`."""
        return group_relative_advantage(rewards, std_eps=1e-4, correction=1)

    def copies(self, completions: Completions, generator: torch.Generator) -> Copies:
        """One for each token, nothing is drawn; see `Objective.copies`."""
        return trajectory_copies(completions, completions.ranks)

    def loss(
        self, logprobs: Tensor, copies: Copies, advantages: Tensor, old: Tensor | None = None, ref: Tensor | None = None
    ) -> Tensor:
        """See `Objective.loss`."""
        values = self.values(logprobs, old, ref, advantages.reshape(-1, 1, 1))
        rows = masked_sum(values, copies.scored, (1, 2)) / copies.counted.sum(1)
        return -rows.sum() / ((advantages != 0).sum() + 1e-5 if self.over_valid else len(rows))


PUBLISHED = JustGrpo(over_valid=True)
