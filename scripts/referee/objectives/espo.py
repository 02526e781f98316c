"""ESPO, arXiv:2512.03759: the lower bound of log π of a whole completion as that of one action.

    L(o) = E_x [ T/x Σ_{k masked} log p(o_k | o with x tokens masked) ],  x uniform on 1 … T
    R_i = exp((L_θ(o_i) − L_old(o_i)) / T)
    J = 1/G Σ_i min(R_i A_i, clip(R_i) A_i) − β k2_i / T,  A_i = r_i − mean of the others

k2 = ½ (L_θ − L_ref)². x is drawn from 0 … T and the complement of the copy, T − x masked tokens, is a copy too: with
weights (T+1)/x and (T+1)/(T−x) the mean of the two is unbiased. The x of a batch are spread evenly,
x_i = ⌊k + i (T+1)/B⌋ modulo T + 1 with k uniform.

Published code: github.com/ML-GSAI/ESPO, `espo_trainer.py`. It rounds halves to even instead of down, so that where
(T+1)/B leaves a half, as in its batches of 2, every second row never sees half of the sizes. All T tokens count, those
behind the end too (`counted = completed`).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from llm_rl.core import approx_kl, clipped_surrogate, group_relative_advantage
from llm_rl.core._options import option
from scripts.referee.objectives.copies import Completions, Copies, Surrogate


def spread_sizes(rows: int, tokens: int, generator: torch.Generator, to_even: bool) -> Tensor:
    """How many of `tokens` each of some rows masks, int64 `(rows,)`, each uniform on 0 … `tokens`.

    Args:
        rows: Their number.
        tokens: T.
        generator: Of the one draw.
        to_even: Whether halves are rounded to even, in float32, which is not uniform.
    """
    sizes = tokens + 1
    start = int(torch.randint(0, sizes, (), generator=generator))
    if to_even:
        return torch.linspace(float(start), start + (rows - 1) * (sizes / rows), steps=rows).round().long() % sizes
    return (start + torch.arange(rows) * sizes // rows) % sizes


@dataclass(kw_only=True)
class Espo(Surrogate):
    """The paper's objective; `to_even=True` is that of the code."""

    paper: ClassVar[str] = "2512.03759"
    drawn: ClassVar[bool] = True
    kl_weight: float = option(0.01, "Weight of the divergence from the reference.")
    num_draws: int = option(2, "Pairs of copies.")
    together: int | None = option(None, "Rows over which sizes are spread; None: all.")
    to_even: bool = option(False, "Whether sizes are rounded to even.")

    def advantages(self, rewards: Tensor) -> Tensor:
        """Differences from the mean of the others; see `Objective.advantages`."""
        return group_relative_advantage(rewards, baseline="leave_one_out", scale="none")

    def copies(self, completions: Completions, generator: torch.Generator) -> Copies:
        """Two for each draw; see `Objective.copies`. Sizes are spread over rows of one length."""
        pairs = [self._pair(completions, generator) for _ in range(self.num_draws)]
        masked, weights = (torch.cat(tensors, dim=1) for tensors in zip(*pairs, strict=True))
        scored = masked & completions.counted.unsqueeze(1)
        return Copies(masked, scored, weights.expand(masked.shape) / (2 * self.num_draws), completions.counted)

    def _pair(self, completions: Completions, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A copy of each row with its complement, bool `(B, 2, L)`, and their weights `(B, 2, 1)`."""
        length = completions.completed.sum(1)
        size = torch.zeros_like(length)
        for batch in torch.arange(len(length)).split(self.together or len(length)):
            for tokens in length[batch].unique().tolist():
                rows = batch[length[batch] == tokens]
                size[rows] = spread_sizes(len(rows), tokens, generator, self.to_even)
        masked = torch.zeros_like(completions.completed)
        for row, positions in enumerate(completions.rows()):
            chosen = torch.randperm(len(positions), generator=generator) < size[row]
            masked[row, positions] = chosen
        sizes = torch.stack([size, length - size], dim=1)  # (B, 2)
        weights = (length + 1).unsqueeze(1) / sizes.clamp(min=1)
        return torch.stack([masked, completions.completed & ~masked], dim=1), weights.unsqueeze(2)

    def loss(
        self, logprobs: Tensor, copies: Copies, advantages: Tensor, old: Tensor | None = None, ref: Tensor | None = None
    ) -> Tensor:
        """See `Objective.loss`; T is the number of tokens that count."""
        number = copies.counted.sum(1)
        new = copies.token_estimates(logprobs).sum(1)  # (B,)
        then = new.detach() if old is None else copies.token_estimates(old).sum(1)
        surrogate = clipped_surrogate(
            new / number, then / number, advantages.reshape(-1), self.clip_low, self.clip_high
        )
        values = surrogate.objective
        if ref is not None:
            reference = copies.token_estimates(ref).sum(1)
            values = values - self.kl_weight * approx_kl(new, reference, estimator="k2") / number
        return -values.mean()


PUBLISHED = Espo(to_even=True)
