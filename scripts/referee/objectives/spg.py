"""SPG, arXiv:2510.09541: a lower bound of log π for good completions, an upper one for bad ones.

With M copies in which #_m of the n tokens are masked, and p_k,m the model's probability of the k-th,

    lower   ℓ = 1/M Σ_m 1/#_m Σ_{k masked} log p_k,m
    upper   u = 1/β · mean over k of log [ 1/M Σ_{m: k masked} n/#_m · p_k,m^β ]
    mixed   ω u + (1 − ω) ℓ
    J = Σ_i n_i A_i (ℓ_i if A_i > 0 else the upper or mixed one) / Σ_i n_i,  A_i = r_i − mean r

The logarithm of a mean over M copies is below log E in expectation, so u is an upper bound for M → ∞ alone; with M = 1
its gradient is that of ℓ. A token that no copy masks is left out of its mean.

A copy masks the tokens behind a block, some of the block (as many as drawn from 1 … its size), and, with a probability
of 0.15, those before it. Published code: github.com/facebookresearch/SPG, `spg_trainer.py`, forward type
"block_random". It scores whatever is masked, what was perturbed before the block and everything behind it included; the
mask of the block is made and not used (`block_only=True` uses it).
"""

from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Literal

import torch
from torch import Tensor

from llm_rl.core import group_relative_advantage, masked_mean
from llm_rl.core._checks import check_choice
from llm_rl.core._options import option
from scripts.referee.objectives.copies import Completions, Copies

Bound = Literal["mixed", "upper", "lower", "none"]


@dataclass(kw_only=True)
class Spg:
    """The code's objective, with the numbers of its Sudoku run."""

    paper: ClassVar[str] = "2510.09541"
    drawn: ClassVar[bool] = True
    bound: Bound = option("mixed", "What takes the place of log π for A ≤ 0.")
    power: float = option(1.0, "β of the upper bound, ≥ 1.")
    mix: float = option(0.5, "ω.")
    num_copies: int = option(2, "M.")
    block_length: int | None = option(None, "Tokens of a block; None: the completion is one.")
    block_only: bool = option(False, "Whether tokens outside the block are not scored.")
    prompt_rate: float = option(0.15, "Share of what lies before the block that is masked.")

    def __post_init__(self) -> None:
        check_choice("bound", self.bound, Bound)

    def advantages(self, rewards: Tensor) -> Tensor:
        """Differences from the mean of the group; see `Objective.advantages`."""
        return group_relative_advantage(rewards, scale="none")

    def copies(self, completions: Completions, generator: torch.Generator) -> Copies:
        """`num_copies`; see `Objective.copies`.

        Raises:
            ValueError: A completion is not made of whole blocks.
        """
        completed, counted = completions.completed, completions.counted
        number = counted.sum(1)
        blocks = [self._blocks(len(row), int(n), generator) for row, n in zip(completions.rows(), number, strict=True)]

        shape = (len(completed), self.num_copies, completed.shape[1])
        masked, block, before = torch.zeros(3, *shape, dtype=torch.bool)
        for row, positions in enumerate(completions.rows()):
            length = self.block_length or len(positions)
            for copy, start in enumerate((blocks[row] * length).tolist()):
                size = min(length, int(number[row]) - start)
                drawn = torch.arange(size) < torch.randint(1, size + 1, (), generator=generator)
                of_block = positions[start : start + size]
                block[row, copy, of_block] = True
                masked[row, copy, of_block] = drawn[torch.randperm(size, generator=generator)]
                masked[row, copy, positions[start + size :]] = True
                before[row, copy] = True
                before[row, copy, positions[start:]] = False
        perturbed = before & (torch.rand(shape, generator=generator) < self.prompt_rate)
        masked = masked | perturbed | (completed & ~counted).unsqueeze(1)
        scored = masked & counted.unsqueeze(1)
        if self.block_only:
            scored = scored & block
        weights = 1.0 / (self.num_copies * scored.sum(-1, keepdim=True).clamp(min=1))  # (B, M, 1)
        return Copies(masked, scored, weights.expand(shape), counted)

    def _blocks(self, tokens: int, counted: int, generator: torch.Generator) -> Tensor:
        """The block of each copy, int64 `(M,)`: each block once before any is chosen again."""
        length = self.block_length or tokens
        if tokens % length:
            raise ValueError(f"block_length={length} does not divide a completion of {tokens} tokens; give a divisor")
        number = tokens // length
        rounds = [torch.randperm(number, generator=generator) for _ in range(ceil(self.num_copies / number))]
        return torch.cat(rounds)[: self.num_copies] % ((counted - 1) // length + 1)

    def loss(
        self, logprobs: Tensor, copies: Copies, advantages: Tensor, old: Tensor | None = None, ref: Tensor | None = None
    ) -> Tensor:
        """See `Objective.loss`; neither the policy that sampled nor a reference is asked."""
        flat, number = advantages.reshape(-1), copies.counted.sum(1)
        low = copies.token_estimates(logprobs).sum(1)  # ℓ, (B,)
        bound = low
        if self.bound == "none":
            bound = torch.zeros_like(low)
        elif self.bound != "lower":
            share = self.mix if self.bound == "mixed" else 1.0
            bound = share * self.upper(logprobs, copies) + (1 - share) * low
        return -(flat * torch.where(flat > 0, low, bound) * number).sum() / number.sum()

    def upper(self, logprobs: Tensor, copies: Copies) -> Tensor:
        """u, `(B,)`, for log-probabilities `(B, M, L)`."""
        scored = copies.scored.any(1)  # (B, L)
        terms = self.power * logprobs + copies.weights.log()
        together = terms.masked_fill(~copies.scored & scored.unsqueeze(1), -torch.inf).logsumexp(1)
        tokens = together + copies.counted.sum(1, keepdim=True).log()
        return masked_mean(tokens, scored, 1) / self.power


PUBLISHED = Spg()
