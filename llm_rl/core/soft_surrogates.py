"""Surrogates without a hard clip: weights that are cut off (CISPO), and a smooth gate (SAPO).

Sources: CISPO, arXiv:2506.13585, section 3.1; SAPO, arXiv:2511.20347, section 3. Names as in TRL's `loss_type`.
"""

import torch
from torch import Tensor

from llm_rl.core._checks import check_positive, check_same_shape, promote
from llm_rl.core.surrogate import SurrogateOutput

SAPO_POSITIVE, SAPO_NEGATIVE = 1.0, 1.05
"""The paper's temperatures of the gate for advantages above 0, and for others."""


def cut_weight_surrogate(log_ratio: Tensor, logprobs: Tensor, advantages: Tensor, clip_high: float) -> SurrogateOutput:
    """sg[min(R, 1 + clip_high)]·A·log π for each action: CISPO, in which every action keeps a gradient.

    The paper sets no lower bound. TRL's `epsilon_high` is the whole bound, 1 + clip_high here.

    Args:
        log_ratio: Any shape, log R within ±20, as `surrogate.log_ratio` gives it.
        logprobs: Same shape, log π(a|s) with its gradient.
        advantages: Broadcastable to it, constants.
        clip_high: How far the weight may rise above 1, ≥ 0.

    Returns:
        The objective; `clipped` and `outside` are True where the weight was cut off.

    Raises:
        ValueError: The shapes differ or the range is negative.
    """
    check_same_shape("log_ratio", log_ratio, "logprobs", logprobs)
    if not clip_high >= 0:
        raise ValueError(f"clip_high is {clip_high!r}; it must be 0 or greater")
    ratio = log_ratio.exp()
    weight = ratio.detach().clamp(max=1 + clip_high)
    cut = weight < ratio
    return SurrogateOutput(weight * promote(advantages) * promote(logprobs), ratio, cut, cut)


def soft_gate_surrogate(
    log_ratio: Tensor, advantages: Tensor, positive: float = SAPO_POSITIVE, negative: float = SAPO_NEGATIVE
) -> SurrogateOutput:
    """(4/τ)·σ(τ(R − 1))·A for each action: SAPO, whose gradient at R = 1 is that of R·A and fades away from it.

    Args:
        log_ratio: Any shape, log R within ±20.
        advantages: Broadcastable to it, constants.
        positive: τ where A > 0, > 0.
        negative: τ elsewhere, > 0; larger, for there the gradient scatters over the whole vocabulary.

    Returns:
        The objective; nothing is `clipped`, and `outside` is True where the gate lets less than half of the gradient
        through, 4σ(1 − σ) < ½.

    Raises:
        ValueError: A temperature is not positive.
    """
    check_positive("positive", positive)
    check_positive("negative", negative)
    advantages, ratio = promote(advantages), log_ratio.exp()
    temperature = torch.full_like(advantages, negative).masked_fill(advantages > 0, positive)
    gate = torch.sigmoid(temperature * (ratio - 1))
    faint = (4 * gate * (1 - gate)).detach() < 0.5
    return SurrogateOutput(4 / temperature * gate * advantages, ratio, torch.zeros_like(faint), faint)
