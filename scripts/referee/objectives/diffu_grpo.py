"""diffu-GRPO, arXiv:2504.12216: log π of a token from one pass over a copy whose whole completion is masked.

    log π(o_k) ≈ log p(o_k | q′, all of o masked), q′ the prompt with 15 % of its tokens masked
    J = 1/G Σ_i 1/|o_i| Σ_k [ min(R_k A_i, clip(R_k) A_i) − β k3_k ],  A_i = r_i − mean r

Published code: github.com/dllm-reasoning/d1, `diffu_grpo_trainer.py`. It departs from the paper in the mean, which is
one over all tokens of the batch. It gives the model no attention mask, so that padding is read and masked as if it were
prompt. With one update a roll-out and β > 0 it stops at a name that is not defined.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from llm_rl.core import group_relative_advantage
from llm_rl.core._options import option
from scripts.referee.objectives.copies import Completions, Copies, TokenSurrogate, whole_copy


@dataclass(kw_only=True)
class DiffuGrpo(TokenSurrogate):
    """The paper's objective; `reduction="mean"` is that of the code."""

    paper: ClassVar[str] = "2504.12216"
    drawn: ClassVar[bool] = True
    prompt_rate: float = option(0.15, "Share of the prompt that is masked.")

    def advantages(self, rewards: Tensor) -> Tensor:
        """Differences from the mean of the group; see `Objective.advantages`."""
        return group_relative_advantage(rewards, scale="none")

    def copies(self, completions: Completions, generator: torch.Generator) -> Copies:
        """One; see `Objective.copies`."""
        return whole_copy(completions, self.prompt_rate, generator)


PUBLISHED = DiffuGrpo(reduction="mean")
