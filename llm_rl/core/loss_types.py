"""The loss types of group-relative policy optimization, normalized over a whole optimizer step.

Names as in TRL's `loss_type`. Sources: "grpo", arXiv:2402.03300, equation 3 (docs/grpo.md); "dapo", arXiv:2503.14476,
equation 8; "dr_grpo", arXiv:2503.20783; "bnpo", TRL's `GRPOConfig`.

How these differ from `aggregate.loss_weights`: there, a row in which nothing counts still counts as a row (in the
unmasking objective a trajectory without a step is a trajectory), and the sums are over what is passed. Here **a fully
masked row is left out**: a completion that a filter removed neither adds to the loss nor thins it out, and the counts
are those of the optimizer step. "grpo" and "dr_grpo" so depart from usual code, TRL's for one, which divides by all
rows; without such a row they agree.
"""

from typing import Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from llm_rl.core._checks import check_choice, check_mask, check_rank, promote
from llm_rl.core.aggregate import masked_sum

LossType = Literal["grpo", "bnpo", "dr_grpo", "dapo"]


class LossCounts(NamedTuple):
    """What an optimizer step divides by; counts of several micro-batches are added up.

    Attributes:
        sequences: int64 scalar, the rows in which something counts.
        tokens: int64 scalar, the entries that count.
    """

    sequences: Tensor
    tokens: Tensor


def loss_counts(*masks: Tensor, reduce: bool = False) -> LossCounts:
    """Counts the sequences and tokens of an optimizer step.

    Args:
        *masks: bool `(…, T)` each: the masks of all micro-batches of this process.
        reduce: Whether to add up over processes: a collective call. Needs an initialized `torch.distributed`.

    Returns:
        The counts, on the device of the masks.

    Raises:
        ValueError: There is no mask, or one is not bool or has fewer than two dimensions.
    """
    if not masks:
        raise ValueError("loss_counts got no mask; pass those of every micro-batch of the optimizer step")
    for mask in masks:
        check_mask(mask, "mask", mask)
        check_rank("mask", mask, 2, "(…, T): rows of T entries")
    both = torch.stack([torch.stack([mask.any(-1).sum(), mask.sum()]) for mask in masks]).sum(0)
    if reduce:
        dist.all_reduce(both)
    return LossCounts(both[0], both[1])


def loss_type_weights(
    mask: Tensor,
    loss_type: LossType,
    counts: LossCounts | None = None,
    *,
    max_length: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The weight of each entry, so that the loss of the optimizer step is Σ weight · value over all micro-batches.

    With N sequences in which something counts, n_i entries in sequence i and n = Σ n_i, all of the whole step:

    - "grpo": 1 / (N · n_i). Mean over sequences of the mean over tokens: a token of a long sequence weighs less.
    - "dapo": 1 / n. Mean over tokens.
    - "bnpo": 1 / n. In TRL it differs from "dapo" in dividing by the tokens of the micro-batch, so that the gradient
      depends on how the step was cut; over a whole step they are the same.
    - "dr_grpo": 1 / (N · `max_length`).

    `DistributedDataParallel` averages gradients over processes: multiply the loss by the world size there, and by the
    accumulation steps where the trainer divides by them.

    Args:
        mask: bool `(…, T)`: the entries of this micro-batch that count.
        loss_type: One of the names above.
        counts: Counts of the whole step, from `loss_counts`. None: this mask is the whole step.
        max_length: The longest completion allowed, ≥ 1; for "dr_grpo", which needs it, alone.
        dtype: Floating-point type of the weights.

    Returns:
        `(…, T)` of type `dtype`, 0 outside the mask; all 0 where nothing counts in the whole step.

    Raises:
        ValueError: The mask does not fit, the name is unknown, or `max_length` is missing, superfluous or below 1.
    """
    check_choice("loss_type", loss_type, LossType)
    check_mask(mask, "mask", mask)
    check_rank("mask", mask, 2, "(…, T): rows of T entries")
    counts = loss_counts(mask) if counts is None else counts
    if (max_length is not None) != (loss_type == "dr_grpo"):
        raise ValueError(
            f"loss_type {loss_type!r} {'needs' if max_length is None else 'takes no'} max_length, the length that "
            "'dr_grpo' divides by"
        )
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length is {max_length!r}; it must be 1 or greater")
    counted = mask.to(dtype)
    if loss_type in ("bnpo", "dapo"):
        return counted / counts.tokens.clamp(min=1)
    sequences = counts.sequences.clamp(min=1)
    if max_length is not None:
        return counted / (sequences * max_length)
    return counted / (sequences * mask.sum(-1, keepdim=True).clamp(min=1))


def aggregate_loss(
    values: Tensor,
    mask: Tensor,
    loss_type: LossType,
    counts: LossCounts | None = None,
    *,
    max_length: int | None = None,
) -> Tensor:
    """This micro-batch's share of the loss, Σ weight · value with `loss_type_weights`, which documents the arguments.

    Values are `(…, T)`, one a token; outside the mask anything, NaN included.

    Returns:
        Scalar, float32 (float64 for float64 values).

    Raises:
        ValueError: For the reasons of `loss_type_weights`, or the mask does not have the shape of the values.
    """
    check_mask(mask, "values", values)
    values = promote(values)
    weights = loss_type_weights(mask, loss_type, counts, max_length=max_length, dtype=values.dtype)
    return masked_sum(values * weights, mask)
