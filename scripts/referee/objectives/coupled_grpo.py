"""Coupled-GRPO of DiffuCoder, arXiv:2506.20639: two complementary copies and the one that is masked as a whole.

With t drawn from [0.2, 0.8], o_t masked at each token with probability t and o_t̂ masked where o_t is not,

    log π(o_k) ≈ ½ [ log p(o_k | all masked) + w_k log p(o_k | the one of o_t, o_t̂ in which k is masked) ]
    w_k = 1/t where it is o_t, 1/(1 − t) where it is o_t̂

and J is GRPO's with A_i = r_i − mean of the others. E[w_k] is 2, not 1: the weights of the estimate add up to 3/2, so
that a ratio is one of π^{3/2} and clips early. `normalized=True` halves w_k.

Published code: github.com/apple/ml-diffucoder, `coupled_grpo.py`, with one t for a whole batch and the mean over all
tokens of the batch. With one update a roll-out and β > 0 it stops at a name that is not defined.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from llm_rl.core import group_relative_advantage
from llm_rl.core._options import option
from scripts.referee.objectives.copies import Completions, Copies, TokenSurrogate


def coupled_copies(completions: Completions, rate: Tensor, generator: torch.Generator, pair_weight: float) -> Copies:
    """The three copies.

    Args:
        completions: The completions.
        rate: `(B, 1)` or `(1, 1)`, t.
        generator: Of the draws.
        pair_weight: What 1/t and 1/(1 − t) are multiplied with.
    """
    completed, counted = completions.completed, completions.counted
    drawn = torch.rand(completed.shape, generator=generator) < rate
    masked = torch.stack([completed, completed & drawn, completed & ~drawn], dim=1)  # (B, 3, L)
    half = torch.full_like(rate, 0.5)
    weights = torch.stack([half, pair_weight / rate, pair_weight / (1 - rate)], dim=1).expand(masked.shape)
    return Copies(masked, masked & counted.unsqueeze(1), weights, counted)


@dataclass(kw_only=True)
class CoupledGrpo(TokenSurrogate):
    """The paper's objective; `reduction="mean"` is that of the code."""

    paper: ClassVar[str] = "2506.20639"
    drawn: ClassVar[bool] = True
    rates: tuple[float, float] = option((0.2, 0.8), "Range of t.")
    normalized: bool = option(False, "Whether the weights add up to 1 in the mean.")

    def advantages(self, rewards: Tensor) -> Tensor:
        """Differences from the mean of the others; see `Objective.advantages`."""
        return group_relative_advantage(rewards, baseline="leave_one_out", scale="none")

    def copies(self, completions: Completions, generator: torch.Generator) -> Copies:
        """Three, with a t for each row; see `Objective.copies`."""
        low, high = self.rates
        rate = low + (high - low) * torch.rand((len(completions.tokens), 1), generator=generator)
        return coupled_copies(completions, rate, generator, 0.25 if self.normalized else 0.5)


PUBLISHED = CoupledGrpo(reduction="mean")
