"""LightningRL's reward, arXiv:2603.13319: being right and being fast, compared within a group.

    r_i = z(right)_i + z(v)_i,  v_i = tokens of completion i / its passes,  z(x) = (x − mean x) / std x

or ±1 for right and wrong, and v on the group's range from 0 to 1, or α v. What is optimized with it is the surrogate of
`trace_rl`, with r standardized over a batch.

Published code: github.com/SJTU-DENG-Lab/LightningRL, `reward/rl_reward.py`; its configuration takes both standardized.
α is used with the plain v alone. Standardized, being fast weighs as much as being right: of three right completions and
a faster wrong one of a group all get 0. Prompts whose completions are all wrong or all as fast are left out there.
"""

from typing import Literal

import torch
from torch import Tensor

from llm_rl.core import group_relative_advantage
from llm_rl.core._checks import check_choice, check_same_shape

RightScale = Literal["standard", "signs"]
SpeedScale = Literal["standard", "range", "plain"]


def lightning_rewards(
    right: Tensor,
    speeds: Tensor,
    *,
    right_scale: RightScale = "standard",
    speed_scale: SpeedScale = "standard",
    weight: float = 1.0,
) -> Tensor:
    """The reward of each completion; the defaults are the published configuration.

    Args:
        right: bool `(P, G)`.
        speeds: `(P, G)`, tokens a pass.
        right_scale: Standardized in the group, or ±1.
        speed_scale: Standardized in the group, its range from 0 to 1 (½ where there is none), or `weight` times itself.
        weight: α.

    Returns:
        `(P, G)` of the type of `speeds`.

    Raises:
        ValueError: Shapes differ or a name is unknown.
    """
    check_choice("right_scale", right_scale, RightScale)
    check_choice("speed_scale", speed_scale, SpeedScale)
    check_same_shape("right", right, "speeds", speeds)
    judged = right.to(speeds.dtype)
    judged = group_relative_advantage(judged) if right_scale == "standard" else 2 * judged - 1
    if speed_scale == "standard":
        return judged + group_relative_advantage(speeds)
    if speed_scale == "plain":
        return judged + weight * speeds
    low, high = speeds.aminmax(dim=1, keepdim=True)
    return judged + torch.where(high > low, (speeds - low) / (high - low).clamp(min=1e-12), 0.5)
