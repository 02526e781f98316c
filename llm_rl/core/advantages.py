"""Discounted returns and group-relative advantages.

Sources: docs/objective.md, 'Return, advantage, objective' (one return a step, compared per step over a group); GRPO,
arXiv:2402.03300 (docs/grpo.md); without the division by the standard deviation, arXiv:2503.20783; by that of the batch,
arXiv:2508.08221; the leave-one-out baseline, arXiv:2402.14740.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from llm_rl.core._checks import check_choice, check_mask, check_rank, promote

Baseline = Literal["mean", "leave_one_out"]
Scale = Literal["std", "none"]
"""Scales that need nothing but the group."""
RewardScale = Literal["std", "batch_std", "none"]
MIN_STD = 1e-6
"""Smallest population standard deviation of returns that is told from none."""


def discounted_return_to_go(rewards: Tensor, gamma: float) -> Tensor:
    """The return from each step on, G_k = Σ_{j≥k} γ^{j−k} r_j.

    Args:
        rewards: `(…, K)`, K ≥ 1, in forward time. Steps after the end of a trajectory hold 0.
        gamma: Discount factor γ in [0, 1].

    Returns:
        `(…, K)` float32 (float64 for float64 rewards). Gradients pass through.

    Raises:
        ValueError: `rewards` has no step, or `gamma` is outside [0, 1].
    """
    check_rank("rewards", rewards, 1, "(…, K)")
    if rewards.shape[-1] == 0:
        raise ValueError(f"rewards has shape {tuple(rewards.shape)}: there is no step to compute a return for")
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma is {gamma!r}; a discount factor lies in [0, 1]")
    backward = promote(rewards).unbind(-1)[::-1]
    returns = [backward[0]]
    for reward in backward[1:]:
        returns.append(reward + gamma * returns[-1])
    return torch.stack(returns[::-1], dim=-1)


def return_after_action(rewards: Tensor, gamma: float) -> Tensor:
    """The return credited to each action where r_k belongs to the state *before* action k: G_{k+1}, and 0 for the last.

    In the unmasking objective (docs/objective.md) the reward f(s_k) is a function of the state, so what action k brings
    about starts at s_{k+1}: its return sums from the state that the action leads to, and the objective's sum over
    actions leaves the last one out.

    Args:
        rewards: `(…, K)`, the rewards of the states s_0 … s_{K−1}. States after the end of a trajectory hold 0.
        gamma: Discount factor γ in [0, 1].

    Returns:
        `(…, K)` float32 (float64 for float64 rewards); entry k is G_{k+1}, entry K−1 is 0.

    Raises:
        ValueError: For the reasons of `discounted_return_to_go`.
    """
    return torch.nn.functional.pad(discounted_return_to_go(rewards, gamma)[..., 1:], (0, 1))


class GroupStatistics(NamedTuple):
    """Mean, standard deviation and size of each group, each of shape `(Q, 1, …)`.

    Attributes:
        mean: Mean of the members that count; 0 where none does.
        std: Population standard deviation (divided by n, not n − 1); exactly 0 where all members are equal.
        size: int64 number of members that count.
    """

    mean: Tensor
    std: Tensor
    size: Tensor


def group_statistics(values: Tensor, mask: Tensor | None = None) -> GroupStatistics:
    """Mean and population standard deviation over the members of each group, per step.

    Args:
        values: `(Q, G, …)`: Q groups of G members; every later dimension (such as steps) is separate.
        mask: bool, shape of `values`: the entries that count. None: all of them.

    Returns:
        The statistics, float32 (float64 for float64 values). Equal members give a deviation of exactly 0 and a mean
        equal to them, at any magnitude.

    Raises:
        ValueError: `values` has fewer than two dimensions or an empty group, or the mask does not fit.
    """
    check_rank("values", values, 2, "(Q, G, …): groups, members, then any others")
    if values.shape[1] == 0:
        raise ValueError(f"values has shape {tuple(values.shape)}: groups of no member")
    if mask is None:
        mask = torch.ones_like(values, dtype=torch.bool)
    check_mask(mask, "values", values)
    values = promote(values)
    size = mask.sum(dim=1, keepdim=True)
    divisor = size.clamp(min=1)
    # Sums are taken from the smallest member on, so that rounding makes no spread of equal ones.
    origin = values.masked_fill(~mask, torch.inf).amin(dim=1, keepdim=True).masked_fill(size == 0, 0.0)
    offset = (values - origin).masked_fill(~mask, 0.0)
    mean_offset = offset.sum(dim=1, keepdim=True) / divisor
    deviation = (offset - mean_offset).masked_fill(~mask, 0.0)
    std = (deviation.square().sum(dim=1, keepdim=True) / divisor).sqrt()
    return GroupStatistics(mean=origin + mean_offset, std=std, size=size)


def groups_without_spread(returns: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Which groups say nothing: their members, as far as they count, all got the same.

    Args:
        returns: `(Q, G, …)`: Q groups of G members.
        mask: bool, shape of `returns`: the entries that count. None: all.

    Returns:
        bool `(Q, …)`, the groups whose advantages are 0; a group in which nothing counts is one.

    Raises:
        ValueError: A shape is wrong.
    """
    return (group_statistics(returns, mask).std < MIN_STD).squeeze(1)


@torch.no_grad()
def group_relative_advantage(
    returns: Tensor,
    *,
    baseline: Baseline = "mean",
    scale: RewardScale = "std",
    std_eps: float = 0.0,
    correction: int = 0,
    mask: Tensor | None = None,
) -> Tensor:
    """How much better each member of a group did than expected, A = (G − baseline) / (std + std_eps).

    The defaults are those of docs/objective.md; GRPO's (docs/grpo.md) are `std_eps=1e-4, correction=1`. One trajectory
    that returns 1 among zeros gets √(G−1): a positive `std_eps` or `scale="none"` bounds it. Where a
    group has no spread (std < `MIN_STD`) a scaled advantage is 0; `groups_without_spread`
    finds such groups.

    Args:
        returns: `(Q, G)` (one return a sample, as in GRPO) or `(Q, G, K)` (one a step, as in the unmasking
            objective): Q groups of G members.
        baseline: "mean" of the group, or "leave_one_out", the mean of the other members.
        scale: "std" divides by the standard deviation of the group (all members, with either baseline);
            "batch_std" by that of all members of all groups that are passed (step by step where there are steps), so
            the returns of every process have to be gathered before; "none" does not divide.
        std_eps: Added to the standard deviation, ≥ 0.
        correction: 0 divides by the population standard deviation, 1 by that of a sample (n − 1 in place of n).
        mask: bool, shape of `returns`: the entries that enter the statistics; the others get 0. Trajectories that
            ended early in the unmasking objective enter with their zero returns, so there the mask stays True for them.

    Returns:
        Advantages, shape of `returns`, float32 (float64 for float64 returns), without gradient: advantages are
        constants of the objective. An entry with no other member to compare with (mean of one, or the mask leaves it
        alone) gets 0.

    Raises:
        ValueError: A shape, dtype, name or range is wrong, or "leave_one_out" meets groups of one member.
    """
    check_choice("baseline", baseline, Baseline)
    check_choice("scale", scale, RewardScale)
    check_rank("returns", returns, 2, "(Q, G) or (Q, G, K): groups, members, steps")
    if not std_eps >= 0:
        raise ValueError(f"std_eps is {std_eps!r}; it must be 0 or greater")
    if correction not in (0, 1):
        raise ValueError(f"correction is {correction!r}; it must be 0 or 1")
    if baseline == "leave_one_out" and returns.shape[1] < 2:
        raise ValueError("baseline 'leave_one_out' needs groups of two members or more; returns has groups of one")
    mean, std, size = group_statistics(returns, mask)
    advantages = promote(returns) - mean
    if baseline == "leave_one_out":
        # What differs from the mean of all by x differs from that of the others by x n / (n − 1).
        advantages = advantages * size / (size - 1).clamp(min=1)
    if scale == "batch_std":
        # The batch as a single group.
        together = None if mask is None else mask.flatten(0, 1).unsqueeze(0)
        _, std, size = group_statistics(returns.flatten(0, 1).unsqueeze(0), together)
    if scale != "none":
        members = size.to(std.dtype)  # a quotient of whole numbers would be float32
        divisor = std * (members / (members - correction).clamp(min=1)).sqrt()
        advantages = (advantages / (divisor + std_eps)).masked_fill(std < MIN_STD, 0.0)
    return advantages if mask is None else advantages.masked_fill(~mask, 0.0)
