"""From one number an action to one number a batch: masked sums, masked means, and the named loss normalizers.

Values outside a mask may be anything, NaN included: they are replaced before the sum, not multiplied by 0.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from llm_rl.core._checks import check_choice, check_mask, check_rank, promote

Reduction = Literal["sum", "mean", "seq_mean_token_sum", "seq_mean_token_mean"]


def masked_sum(values: Tensor, mask: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """Sum of the values that count.

    Args:
        values: Any shape.
        mask: bool, same shape: the entries that count.
        dim: Dimensions to sum over. None: all.

    Returns:
        float32 (float64 for float64 values), without the summed dimensions; 0 where nothing counts.

    Raises:
        ValueError: The mask is not bool or has another shape.
    """
    check_mask(mask, "values", values)
    return promote(values).masked_fill(~mask, 0.0).sum(dim)


def masked_mean(values: Tensor, mask: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """Mean of the values that count; arguments and errors as in `masked_sum`.

    Returns:
        float32 (float64 for float64 values), without the averaged dimensions. The mean of nothing is 0, with gradient
        0, so that an empty micro-batch adds nothing to a loss. A metric goes through `MetricAccumulator.add_ratio`
        instead, which leaves such a mean out.
    """
    return masked_sum(values, mask, dim) / mask.sum(dim).clamp(min=1)


def loss_weights(mask: Tensor, reduction: Reduction, dtype: torch.dtype = torch.float32) -> Tensor:
    """The weight of each entry in a named loss normalizer, so that the loss is Σ weight · value.

    With N rows (everything but the last dimension), n_i entries that count in row i and n = Σ n_i:

    - "sum": 1.
    - "mean": 1 / n. Every token of the batch weighs the same.
    - "seq_mean_token_sum": 1 / N. Sum over a trajectory, mean over trajectories: that of docs/objective.md.
    - "seq_mean_token_mean": 1 / (N · n_i). Mean over a sequence, mean over sequences: GRPO's.

    A row in which nothing counts adds 0 and still counts in N: masking a sequence out does not make the others weigh
    more. The loss types of group-relative policy optimization leave such rows out: `loss_types.loss_type_weights`.

    For micro-batches, compute the weights once from the mask of the whole optimizer step, split them along with the
    values, in whatever order, and add up Σ weight · value: the result is that of the whole batch.

    Args:
        mask: bool `(…, T)`: the entries that count.
        reduction: One of the names above.
        dtype: Floating-point type of the weights.

    Returns:
        `(…, T)` of type `dtype`, 0 outside the mask.

    Raises:
        ValueError: The mask is not bool or has fewer than two dimensions, or the name is unknown.
    """
    check_choice("reduction", reduction, Reduction)
    check_mask(mask, "mask", mask)
    check_rank("mask", mask, 2, "(…, T): rows of T entries")
    counted = mask.to(dtype)
    if reduction == "sum":
        return counted
    if reduction == "mean":
        return counted / mask.sum().clamp(min=1)
    rows = math.prod(mask.shape[:-1])
    if reduction == "seq_mean_token_sum":
        return counted / rows
    return counted / (rows * mask.sum(-1, keepdim=True).clamp(min=1))


def aggregate(values: Tensor, mask: Tensor, reduction: Reduction) -> Tensor:
    """The batch's loss or objective under a named normalizer, Σ weight · value with `loss_weights`.

    Args:
        values: `(…, T)`, one value an action.
        mask: bool `(…, T)`: the actions that count.
        reduction: Name of the normalizer, one of those of `loss_weights`.

    Returns:
        Scalar, float32 (float64 for float64 values).

    Raises:
        ValueError: The mask does not fit or has fewer than two dimensions, or the name is unknown.
    """
    check_mask(mask, "values", values)
    values = promote(values)
    return masked_sum(values * loss_weights(mask, reduction, values.dtype), mask)
