"""UPO, arXiv:2510.05725: the clipped surrogate of which position a pass fills; tokens are drawn from a fixed model.

    R_s = π(ℓ_s | state s) / π_old(ℓ_s | state s)
    J = 1/G Σ_i [ Σ_s min(R_s A_i, clip(R_s) A_i) − β w_i Σ_s log π(ℓ_s) ]
    w_i = clip(p_i / p_old,i, ½, 2) (1 + log p_i / p_ref,i) without gradient, p the product over passes

so that the last term has the gradient of KL(π ‖ π_ref) of the order, A_i = (r_i − mean r) / (std r + 10⁻⁴) with the std
of a sample. `logprobs` are those of positions here: log π(ℓ) at every masked position of a copy.

Published code: github.com/chunsanHong/UPO, `upo_trainer.py`. p_old is kept as a product and its logarithm taken again:
from about 100 nats on, some dozens of passes, it is 0 and p / p_old clipped to 2 whatever it is (`kept_as` its type).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from llm_rl.core import clipped_surrogate, group_relative_advantage, masked_sum
from llm_rl.core._options import option
from scripts.referee.objectives.copies import Completions, Copies, Surrogate, trajectory_copies


@dataclass(kw_only=True)
class Upo(Surrogate):
    """The paper's objective; `kept_as=torch.float32` is that of the code."""

    paper: ClassVar[str] = "2510.05725"
    drawn: ClassVar[bool] = False
    kept_as: torch.dtype | None = option(None, "The type in which p_old is kept.")

    def advantages(self, rewards: Tensor) -> Tensor:
        """Standardized in the group; see `Objective.advantages`."""
        return group_relative_advantage(rewards, std_eps=1e-4, correction=1)

    def copies(self, completions: Completions, generator: torch.Generator) -> Copies:
        """One for each pass, nothing is drawn; see `Objective.copies`."""
        return trajectory_copies(completions, completions.steps)

    def loss(
        self, logprobs: Tensor, copies: Copies, advantages: Tensor, old: Tensor | None = None, ref: Tensor | None = None
    ) -> Tensor:
        """See `Objective.loss`; log-probabilities are those of positions."""
        new = masked_sum(logprobs, copies.scored, -1)  # (B, M)
        then = new.detach() if old is None else masked_sum(old, copies.scored, -1)
        values = clipped_surrogate(
            new, then, advantages.reshape(-1, 1), self.clip_low, self.clip_high, max_log_ratio=10.0
        ).objective.sum(1)
        if ref is not None:
            total, before = new.sum(1), then.sum(1)
            if self.kept_as is not None:
                before = before.to(self.kept_as).exp().log()
            order = total.detach()
            ratio = (order - before).exp().clamp(0.5, 2.0)
            reference = masked_sum(ref, copies.scored, -1).sum(1)
            values = values - self.kl_weight * ratio * (1 + order - reference) * total
        return -values.mean()


PUBLISHED = Upo(kept_as=torch.float32)
