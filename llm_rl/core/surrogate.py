"""The clipped surrogate objective of proximal policy optimization.

Sources: PPO, arXiv:1707.06347, equation 7; the first sum of J in docs/objective.md. Ratios of spans: `ratio_levels`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from llm_rl.core._checks import check_positive, check_same_shape, promote
from llm_rl.core._options import option

MAX_LOG_RATIO = 20.0


@dataclass(kw_only=True)
class ClipConfig:
    """How far the ratio of policies may move from 1 before its gradient ends; arguments of trainers inherit it.

    Raises:
        ValueError: A bound is out of its range.
    """

    clip_low: float = option(0.2, "The ratio is clipped below at 1 - clip_low.")
    clip_high: float = option(0.2, "The ratio is clipped above at 1 + clip_high.")

    def __post_init__(self) -> None:
        _check_clip(self.clip_low, self.clip_high)


def log_ratio(logprobs: Tensor, old_logprobs: Tensor, *, max_log_ratio: float = MAX_LOG_RATIO) -> Tensor:
    """Clamped log-ratio, log π(a|s) − log π_old(a|s) within ±`max_log_ratio`.

    Args:
        logprobs: Any shape, finite; log-probabilities of the actions taken.
        old_logprobs: Those under the distribution to compare with; same shape, finite.
        max_log_ratio: Bound that keeps the exponential finite; beyond it the gradient is 0. 20 stands for a ratio of
            5e8, which no healthy run reaches; `math.inf` turns it off.

    Returns:
        Shape of `logprobs`, float32 (float64 where an input is).

    Raises:
        ValueError: The shapes differ or `max_log_ratio` is not positive.
    """
    check_same_shape("logprobs", logprobs, "old_logprobs", old_logprobs)
    check_positive("max_log_ratio", max_log_ratio)
    return (promote(logprobs) - promote(old_logprobs)).clamp(-max_log_ratio, max_log_ratio)


def importance_ratio(logprobs: Tensor, old_logprobs: Tensor, *, max_log_ratio: float = MAX_LOG_RATIO) -> Tensor:
    """R = π(a|s) / π_old(a|s), the exponential of `log_ratio`, which documents the arguments and errors."""
    return log_ratio(logprobs, old_logprobs, max_log_ratio=max_log_ratio).exp()


class SurrogateOutput(NamedTuple):
    """What `clipped_surrogate` returns; every tensor has the shape of its `logprobs`.

    Attributes:
        objective: min(R·A, clip(R)·A), to be maximized.
        ratio: R, with its gradient; detach it for use as a weight.
        clipped: bool, True where clipping is what acted, so that no gradient flows: the minimum took the clipped branch
            (clip(R)·A < R·A).
        outside: bool, True where R lies outside the range, whether or not that took effect: with A > 0 and R too low,
            or A = 0, it does not.
    """

    objective: Tensor
    ratio: Tensor
    clipped: Tensor
    outside: Tensor


def clipped_surrogate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
    *,
    max_log_ratio: float = MAX_LOG_RATIO,
) -> SurrogateOutput:
    """min(R·A, clip(R, 1 − clip_low, 1 + clip_high)·A) for each action.

    Nothing is averaged here; `aggregate` does that, and `masked_mean(clipped, mask)` is the clip fraction.

    Args:
        logprobs: Any shape, finite; log π(a|s) under the policy being trained. The factors of a composed action (a
            position and a token; the tokens of a span) are added up before.
        old_logprobs: Those under the policy that acted, or under a reference; same shape, without gradient.
        advantages: Rank of `logprobs` and broadcastable to it, without gradient: `(B, 1)` against `(B, T)` for one
            advantage a sequence.
        clip_low: How far R may fall below 1, in [0, 1].
        clip_high: How far R may rise above 1, ≥ 0. `clip_low=1, clip_high=math.inf` is no clipping.
        max_log_ratio: Clamp on the magnitude of the log-ratio, as in `log_ratio`.

    Returns:
        Objective, ratio and clip indicator for each action.

    Raises:
        ValueError: Shapes do not fit, a constant carries a gradient, or a clip range is out of bounds.
    """
    _check_clip(clip_low, clip_high)
    _check_broadcast(advantages, logprobs)
    for name, constant in (("old_logprobs", old_logprobs), ("advantages", advantages)):
        if constant.requires_grad:
            raise ValueError(f"{name} carries a gradient; it is a constant of the objective (use {name}.detach())")
    ratio = importance_ratio(logprobs, old_logprobs, max_log_ratio=max_log_ratio)
    advantages = promote(advantages)
    unclipped_objective = ratio * advantages
    within = ratio.clamp(1 - clip_low, 1 + clip_high)
    clipped_objective = within * advantages
    clipped = clipped_objective < unclipped_objective
    objective = torch.where(clipped, clipped_objective, unclipped_objective)
    return SurrogateOutput(objective, ratio, clipped, within != ratio)


def _check_clip(clip_low: float, clip_high: float) -> None:
    if not 0 <= clip_low <= 1:
        raise ValueError(f"clip_low is {clip_low!r}; it must lie in [0, 1], as the ratio is at least 1 - clip_low")
    if not clip_high >= 0:
        raise ValueError(f"clip_high is {clip_high!r}; it must be 0 or greater, as the ratio is at most 1 + clip_high")


def _check_broadcast(advantages: Tensor, logprobs: Tensor) -> None:
    fits = advantages.ndim == logprobs.ndim and all(
        size in (1, target) for size, target in zip(advantages.shape, logprobs.shape, strict=True)
    )
    if not fits:
        raise ValueError(
            f"advantages has shape {tuple(advantages.shape)} but logprobs has {tuple(logprobs.shape)}; give one "
            "advantage an action, or size 1 along the dimensions that share one (advantages.unsqueeze(-1))"
        )
