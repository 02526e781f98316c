"""Groups without spread, replaced by groups of other prompts. Source: DAPO, arXiv:2503.14476, section 3.2."""

import logging
from collections.abc import Callable, Sequence

from torch import Tensor

from llm_rl.core import MetricAccumulator, groups_without_spread
from llm_rl.rollout.data import Sample

logger = logging.getLogger(__name__)


def replace_groups(
    samples: Sequence[Sample],
    rewards: Tensor,
    attempts: int,
    draw: Callable[[int], tuple[list[Sample], Tensor]],
    metrics: MetricAccumulator,
) -> tuple[list[Sample], Tensor]:
    """Draws groups anew until all have spread, at most `attempts` times; completions and rewards.

    Groups that are left without spread stay, with advantage 0, and a warning says so. Logged are
    "reward_mean_before_replacement" and "groups_replaced", replacements over groups, which may exceed 1.

    There are Q · G `samples`, a group's side by side, and `rewards` `(Q, G)`, NaN where one is not scored. `draw`
    gives, for a number of groups, so many fresh ones, completions and rewards.
    """
    size = rewards.shape[1]
    samples, rewards = list(samples), rewards.clone()
    metrics.add_ratio("reward_mean_before_replacement", rewards.double().nansum(), rewards.isfinite().sum())
    replaced = 0
    for _ in range(attempts):
        flat = groups_without_spread(rewards, mask=~rewards.isnan()).nonzero().flatten().tolist()
        if not flat:
            break
        fresh, scores = draw(len(flat))
        for position, group in enumerate(flat):
            samples[group * size : (group + 1) * size] = fresh[position * size : (position + 1) * size]
            rewards[group] = scores[position]
        replaced += len(flat)
    metrics.add_ratio("groups_replaced", replaced, len(rewards))
    if left := int(groups_without_spread(rewards, mask=~rewards.isnan()).sum()):
        logger.warning(
            "%d of %d groups have no spread after %d replacements and teach nothing; make prompts harder or easier, or "
            "raise num_generations",
            left,
            len(rewards),
            attempts,
        )
    return samples, rewards
