"""RARO's joint objective as a registered advantage estimator of verl. Source: docs/raro.md.

verl's policy loss is one mean over the completions of both roles. It is linear in the advantages' scale (a clipped
surrogate is positively homogeneous), so a factor λ · all / role on a role's advantages makes it λ times the mean over
that role's own completions: the surrogate part of `llm_rl.raro.joint_loss`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est

from llm_rl.integrations.verl.scoring import decode_scores
from llm_rl.raro import RaroConfig, role_advantages

MODES = ("seq-mean-token-mean", "token-mean")


def grouped_advantages(rewards: Tensor, valid: Tensor, index: Sequence[Any], scale_by_std: bool) -> Tensor:
    """`role_advantages`, float `(B,)`, for groups that are given by a key.

    Rewards are float `(B,)`, anything where `valid`, bool `(B,)`, is False; `index`, `(B,)`, is equal for completions
    of one prompt.
    """
    places: dict[Any, list[int]] = {}
    for place, key in enumerate(index):
        places.setdefault(key, []).append(place)
    size = max(map(len, places.values()))
    table = torch.tensor([group + [-1] * (size - len(group)) for group in places.values()], device=rewards.device)
    counted = valid[table] & (table >= 0)
    values = role_advantages(rewards[table].float(), counted, scale="std" if scale_by_std else "none")
    result = torch.zeros_like(rewards, dtype=torch.float32)
    result[table[table >= 0]] = values[table >= 0]
    return result


def role_factors(response_mask: Tensor, is_critic: Tensor, config: RaroConfig, loss_agg_mode: str) -> Tensor:
    """What to multiply advantages by, float `(B,)`, so that verl's mean becomes λ times each role's own.

    `response_mask`, `(B, T)`, is 1 for tokens that count, and `is_critic` bool `(B,)`. verl's `actor.loss_agg_mode`
    "seq-mean-token-mean" divides by all completions of the mini-batch, "token-mean" by its tokens that count; another
    one is a `ValueError`. A mini-batch must be the whole batch.
    """
    if loss_agg_mode not in MODES:
        raise ValueError(f"loss_agg_mode is {loss_agg_mode!r}; RARO on verl supports {MODES}")
    tokens = response_mask.sum(-1).float()
    weights = tokens if loss_agg_mode == "token-mean" else (tokens > 0).float()
    total = weights.sum() if loss_agg_mode == "token-mean" else torch.tensor(float(len(tokens)))
    shares = [weights[is_critic == role].sum().clamp(min=1) for role in (False, True)]
    return torch.where(is_critic, config.lambda_crit * total / shares[True], config.lambda_pol * total / shares[False])


@register_adv_est("raro")
def raro_advantages(
    token_level_rewards: Tensor, response_mask: Tensor, index: Sequence[Any], config: Mapping[str, Any], **_: Any
) -> tuple[Tensor, Tensor]:
    """Advantages of both roles, each within its prompt's group and weighted for the joint objective.

    A completion whose mask is all 0, which the agent loop leaves out, counts for nothing.

    Args:
        token_level_rewards: float `(B, T)`, whose sums are `encode_score`'s.
        response_mask: `(B, T)`.
        index: `(B,)`, verl's `uid`.
        config: verl's `algorithm` with a section `raro`: `lambda_pol`, `lambda_crit` and `loss_agg_mode`.

    Returns:
        Advantages and returns, the same, float `(B, T)`.

    Raises:
        ValueError: The section is missing, a score is none of RARO's, or see `role_factors`.
    """
    raro = config.get("raro")
    if raro is None:
        raise ValueError("algorithm.raro is missing; start from configs/verl/raro.yaml")
    weights = RaroConfig(lambda_pol=raro["lambda_pol"], lambda_crit=raro["lambda_crit"])
    rewards, is_critic = decode_scores(token_level_rewards.sum(-1))
    valid = response_mask.any(-1)
    advantages = grouped_advantages(rewards, valid, index, bool(config.get("norm_adv_by_std_in_grpo", True)))
    advantages = advantages * role_factors(response_mask, is_critic, weights, raro["loss_agg_mode"])
    spread = advantages.unsqueeze(-1) * response_mask
    return spread, spread
