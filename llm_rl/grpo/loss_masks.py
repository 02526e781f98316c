"""Which tokens of a roll-out count in GRPO's loss, and what a divergence costs its reward."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from llm_rl.core import rewards_with_kl


def without_truncated(mask: Tensor, truncated: Tensor) -> Tensor:
    """Leaves out completions without end token: a bool mask `(B, T)` of tokens and a bool `(B,)` of completions."""
    return mask & ~truncated.unsqueeze(1)


def highest_entropy(
    entropies: Sequence[Tensor], masks: Sequence[Tensor], share: float, accelerator: Any = None
) -> list[Tensor]:
    """Keeps the tokens of highest entropy, a share of all that count in the roll-out of all processes.

    One threshold for the whole roll-out, taken at sampling, so that the mask does not depend on micro-batches: the
    quantile 1 − ρ of the entropies, as in TRL, which takes it of each micro-batch. Source: arXiv:2506.01939, section 5.

    Args:
        entropies: `(B, T)` each, ≥ 0.
        masks: bool `(B, T)` each, the tokens that count so far.
        share: ρ in (0, 1]. Of n tokens n − ⌈(1 − ρ)(n − 1)⌉ stay; those as uncertain as the last one stay too.
        accelerator: The accelerator of several processes; a collective call. None: this process alone.

    Returns:
        The new masks.
    """
    counted = torch.cat([entropy[mask] for entropy, mask in zip(entropies, masks, strict=True)])
    if accelerator is not None:
        padded = accelerator.pad_across_processes(counted, pad_index=-1)
        counted = accelerator.gather(padded)
        counted = counted[counted > -0.5]  # an entropy may lie below 0 by rounding
    if not len(counted):
        return list(masks)
    # rounding of 1 − ρ must not move the rank by one
    rank = math.ceil(round((1 - share) * (len(counted) - 1), 6))
    threshold = counted.sort().values[rank]
    return [mask & (entropy >= threshold) for entropy, mask in zip(entropies, masks, strict=True)]


def kl_penalty(kl: Tensor, mask: Tensor, beta: float) -> Tensor:
    """−β Σ KL over the tokens of each completion, `(B,)`: the divergence `(B, T)` in the reward."""
    return rewards_with_kl(kl.new_zeros(len(kl)), kl, mask, beta).sum(1)
