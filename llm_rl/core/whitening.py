"""Mean and variance over all micro-batches and processes, and advantages that have mean 0 and variance 1.

Source: the normalization of advantages that arXiv:2006.05990 compares, here over a whole roll-out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from llm_rl.core._checks import check_mask, promote


class Moments(NamedTuple):
    """Float64 scalars over the entries that count; mean and variance are 0 where none does.

    Attributes:
        size: Number of entries.
        mean: Their mean.
        variance: Their population variance (divided by n).
    """

    size: Tensor
    mean: Tensor
    variance: Tensor


def masked_moments(values: Sequence[Tensor], masks: Sequence[Tensor], *, reduce: bool = False) -> Moments:
    """Mean and variance of the entries that count, exact over any split into micro-batches and processes.

    Args:
        values: Tensors of any shapes, at least one; outside the masks anything.
        masks: bool tensors of the same shapes: the entries that count.
        reduce: Whether to add up over processes: two collective calls. Needs an initialized `torch.distributed`.

    Raises:
        ValueError: There is no tensor, or a mask does not fit.
    """
    if not values:
        raise ValueError("masked_moments got no values; pass those of every micro-batch")
    for each, mask in zip(values, masks, strict=True):
        check_mask(mask, "values", each)
    counted = torch.cat([each[mask] for each, mask in zip(values, masks, strict=True)]).double()
    total = torch.stack([counted.new_tensor(len(counted)), counted.sum()])
    if reduce:
        dist.all_reduce(total)
    count, mean = total[0], total[1] / total[0].clamp(min=1)
    squares = (counted - mean).square().sum()
    if reduce:
        dist.all_reduce(squares)
    return Moments(count, mean, squares / count.clamp(min=1))


def whiten(values: Tensor, mask: Tensor, moments: Moments, *, eps: float = 1e-8) -> Tensor:
    """(x − mean) / (std + eps), 0 outside the mask.

    Args:
        values: Any shape.
        mask: bool, same shape: the entries that count.
        moments: Of all entries that count, from `masked_moments`.
        eps: Added to the standard deviation, ≥ 0.

    Returns:
        float32 (float64 for float64 values).

    Raises:
        ValueError: The mask does not fit.
    """
    check_mask(mask, "values", values)
    values = promote(values)
    mean, std = moments.mean.to(values.dtype), moments.variance.sqrt().to(values.dtype)
    return ((values - mean) / (std + eps)).masked_fill(~mask, 0.0)
