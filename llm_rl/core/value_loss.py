"""The loss of a value function, and how much of its targets it explains.

Sources: PPO, arXiv:1707.06347, equation 9 (the squared error). The clip is none of the paper's but of its authors'
code, see arXiv:2005.12729, section 3; arXiv:2006.05990 finds that it does not help.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from llm_rl.core._checks import check_positive, check_same_shape, promote
from llm_rl.core.whitening import Moments


class ValueLoss(NamedTuple):
    """What `value_loss` returns, shape of the values.

    Attributes:
        loss: ½ (V − target)² a state, or the clipped form, to be minimized.
        clipped: bool, True where clipping is what acted, so that no gradient flows.
    """

    loss: Tensor
    clipped: Tensor


def value_loss(
    values: Tensor, targets: Tensor, old_values: Tensor | None = None, *, clip_range: float | None = None
) -> ValueLoss:
    """½ (V − target)² for each state, the value function's loss.

    With a clip range c it is ½ max((V − target)², (V_old + clip(V − V_old, ±c) − target)²): a value that has moved
    further than c towards its target gets no gradient. The half makes the gradient V − target. Nothing is averaged
    here; `aggregate` does that.

    Args:
        values: Any shape, V under the value function that is trained.
        targets: What it is fitted to, such as `GaeOutput.returns`; same shape, without gradient.
        old_values: V at sampling, same shape, without gradient; needed with `clip_range` alone.
        clip_range: c > 0, how far V may move from V_old before moving on stops paying. None: no clip.

    Returns:
        Loss and clip indicator, float32 (float64 where an input is).

    Raises:
        ValueError: Shapes differ, a constant carries a gradient, the range is not positive, or `old_values` is missing.
    """
    check_same_shape("targets", targets, "values", values)
    for name, constant in (("targets", targets), ("old_values", old_values)):
        if constant is not None and constant.requires_grad:
            raise ValueError(f"{name} carries a gradient; it is a constant of the loss (use {name}.detach())")
    values, targets = promote(values), promote(targets)
    error = (values - targets).square()
    if clip_range is None:
        return ValueLoss(error / 2, torch.zeros_like(error, dtype=torch.bool))
    check_positive("clip_range", clip_range)
    if old_values is None:
        raise ValueError(f"clip_range is {clip_range} but old_values is None; pass the values at sampling")
    check_same_shape("old_values", old_values, "values", values)
    old_values = promote(old_values)
    near = old_values + (values - old_values).clamp(-clip_range, clip_range)
    clipped_error = (near - targets).square()
    clipped = clipped_error > error
    return ValueLoss(torch.where(clipped, clipped_error, error) / 2, clipped)


def explained_variance(errors: Moments, targets: Moments) -> Tensor:
    """1 − Var(target − V) / Var(target): 1 for a perfect value function, 0 for one that is constant, below 0 for worse.

    Args:
        errors: Moments of target − V, over the states that count.
        targets: Moments of the targets over the same states.

    Returns:
        float64 scalar; NaN where the targets do not vary or nothing counts.
    """
    return 1 - errors.variance / targets.variance.where(targets.variance > 0, torch.nan)
