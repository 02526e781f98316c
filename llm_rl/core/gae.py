"""Generalized advantage estimation with a value function.

Source: Schulman et al., arXiv:1506.02438, equations 11 to 16; the recursion and the target of the value function as in
PPO, arXiv:1707.06347, equations 11 and 12.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from llm_rl.core._checks import check_mask, check_rank, check_same_shape, promote


class GaeOutput(NamedTuple):
    """What `generalized_advantage` returns, shape of the rewards, without gradient; 0 outside the mask.

    Attributes:
        advantages: Â_k.
        returns: Â_k + V(s_k), the λ-return, what the value function is fitted to.
    """

    advantages: Tensor
    returns: Tensor


@torch.no_grad()
def generalized_advantage(
    rewards: Tensor,
    values: Tensor,
    *,
    gamma: float,
    lam: float,
    mask: Tensor | None = None,
    last_values: Tensor | None = None,
) -> GaeOutput:
    """Â_k = Σ_{j≥k} (γλ)^{j−k} δ_j with δ_j = r_j + γ V(s_{j+1}) − V(s_j), and `last_values` after the last step.

    λ = 0 is the one-step error δ; λ = 1 the discounted return minus the value.

    Args:
        rewards: `(…, K)`, K ≥ 1, in forward time: r_k follows action k.
        values: `(…, K)`, V(s_k), the state before action k.
        gamma: Discount factor γ in [0, 1].
        lam: λ in [0, 1].
        mask: bool `(…, K)`, the steps that exist. None: all. A step outside it is passed over: the one before it is
            followed by the one after it (padding at the end; text between two actions that is not the policy's).
        last_values: `(…)`, V of the state after the last step, where an episode was cut off there (bootstrapping); 0
            where it ended. None: all ended.

    Returns:
        Advantages and returns, float32 (float64 where an input is). They are not whitened.

    Raises:
        ValueError: Shapes do not fit, there is no step, or γ or λ is outside [0, 1].
    """
    check_rank("rewards", rewards, 1, "(…, K)")
    check_same_shape("values", values, "rewards", rewards)
    if rewards.shape[-1] == 0:
        raise ValueError(f"rewards has shape {tuple(rewards.shape)}: there is no step")
    for name, number in (("gamma", gamma), ("lam", lam)):
        if not 0 <= number <= 1:
            raise ValueError(f"{name} is {number!r}; it must lie in [0, 1]")
    mask = torch.ones_like(rewards, dtype=torch.bool) if mask is None else mask
    check_mask(mask, "rewards", rewards)
    rewards, values = promote(rewards).masked_fill(~mask, 0.0), promote(values).masked_fill(~mask, 0.0)
    next_value = torch.zeros_like(values[..., 0]) if last_values is None else promote(last_values)
    check_same_shape("last_values", next_value, "values[..., 0]", values[..., 0])
    advantage = torch.zeros_like(next_value)
    advantages = []
    for k in reversed(range(rewards.shape[-1])):
        exists = mask[..., k]
        error = rewards[..., k] + gamma * next_value - values[..., k]
        # A step that does not exist hands on what came behind it.
        advantage = torch.where(exists, error + gamma * lam * advantage, advantage)
        next_value = torch.where(exists, values[..., k], next_value)
        advantages.append(advantage)
    stacked = torch.stack(advantages[::-1], dim=-1).masked_fill(~mask, 0.0)
    return GaeOutput(stacked, stacked + values)
