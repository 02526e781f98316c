"""Losses on pairs of a preferred and a rejected completion, from their log-probabilities.

Sources: "sigmoid" is direct preference optimization, arXiv:2305.18290, equation 7; "ipo", arXiv:2310.12036, equation 17
(its τ is β here); "hinge", SLiC, arXiv:2305.10425, with log-ratios as DPO writes it.
"""

from typing import Literal

import torch
from torch import Tensor

from llm_rl.core._checks import check_choice, check_positive, check_same_shape, promote

PreferenceLoss = Literal["sigmoid", "ipo", "hinge"]


def dpo_loss(
    policy_chosen: Tensor,
    policy_rejected: Tensor,
    ref_chosen: Tensor,
    ref_rejected: Tensor,
    *,
    beta: float,
    loss_type: PreferenceLoss = "sigmoid",
) -> Tensor:
    """The loss of each pair, `pairwise_loss` of h = log π/π_ref(chosen) − log π/π_ref(rejected).

    Args:
        policy_chosen: `(B,)`, log-probability of each chosen completion, summed over its tokens, under the policy.
        policy_rejected: `(B,)`, that of each rejected completion.
        ref_chosen: `(B,)`, that of the chosen completion under the reference, without gradient.
        ref_rejected: `(B,)`, that of the rejected completion under the reference, without gradient.
        beta: As in `pairwise_loss`.
        loss_type: As in `pairwise_loss`.

    Returns:
        `(B,)` float32 (float64 where an input is). Nothing is averaged.

    Raises:
        ValueError: Shapes differ, a reference carries a gradient, or for the reasons of `pairwise_loss`.
    """
    margins = preference_margins(policy_chosen, policy_rejected, ref_chosen, ref_rejected)
    return pairwise_loss(margins, beta=beta, loss_type=loss_type)


def preference_margins(
    policy_chosen: Tensor, policy_rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor
) -> Tensor:
    """h = log π/π_ref(chosen) − log π/π_ref(rejected), above 0 where the policy moved to the chosen completion.

    Arguments, result and errors as in `dpo_loss`.
    """
    check_same_shape("policy_rejected", policy_rejected, "policy_chosen", policy_chosen)
    margins = promote(policy_chosen) - promote(policy_rejected)
    for name, constant in (("ref_chosen", ref_chosen), ("ref_rejected", ref_rejected)):
        check_same_shape(name, constant, "policy_chosen", policy_chosen)
        if constant.requires_grad:
            raise ValueError(f"{name} carries a gradient; it is a constant of the loss (use {name}.detach())")
    return margins - (promote(ref_chosen) - promote(ref_rejected))


def pairwise_loss(margins: Tensor, *, beta: float, loss_type: PreferenceLoss = "sigmoid") -> Tensor:
    """A loss that falls while the margin h of a pair rises.

    - "sigmoid": −log σ(β h).
    - "ipo": (h − 1 / (2 β))²: the margin has a target.
    - "hinge": max(0, 1 − β h).

    Args:
        margins: Any shape, h.
        beta: β > 0. The larger, the nearer to the reference the best policy is.
        loss_type: One of the names above.

    Returns:
        Shape of the margins, float32 (float64 for float64).

    Raises:
        ValueError: β is out of range or the name unknown.
    """
    check_choice("loss_type", loss_type, PreferenceLoss)
    check_positive("beta", beta)
    margins = promote(margins)
    if loss_type == "ipo":
        return (margins - 1 / (2 * beta)).square()
    if loss_type == "hinge":
        return torch.relu(1 - beta * margins)
    return -torch.nn.functional.logsigmoid(beta * margins)
