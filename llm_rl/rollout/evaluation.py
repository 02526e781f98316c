"""What several completions of one prompt say in an evaluation: their mean reward, and pass@k."""

import torch
from torch import Tensor

from llm_rl.core import MetricAccumulator


def pass_at_k(passed: Tensor, k: int) -> Tensor:
    """The chance that one of k completions passes, drawn without putting back from the n of a prompt.

    1 − C(n − c, k) / C(n, k) with c that passed; arXiv:2107.03374, equation 1.

    Args:
        passed: bool `(…, n)`.
        k: In 1 … n.

    Returns:
        float64 `(…)`.

    Raises:
        ValueError: `k` is out of range.
    """
    count = passed.shape[-1]
    if not 1 <= k <= count:
        raise ValueError(f"k is {k}; of {count} completions 1 to {count} can be drawn")
    failed = (~passed).sum(-1).double()
    none_passes = torch.ones_like(failed)
    for drawn in range(k):
        none_passes = none_passes * (failed - drawn).clamp(min=0) / (count - drawn)
    return 1 - none_passes


def record_passes(metrics: MetricAccumulator, rewards: Tensor, pass_reward: float) -> None:
    """Adds "mean@n", and "pass@k" for k = 1, 2, 4 … and n.

    Args:
        metrics: The accumulator to add to.
        rewards: `(R, n)`, the completions of each of R rows; NaN, not scored, does not pass and is left out of the
            mean.
        pass_reward: A completion passes that is rewarded with at least this.
    """
    count, passed = rewards.shape[1], rewards >= pass_reward
    metrics.add_ratio(f"mean@{count}", rewards.nansum(), rewards.isfinite().sum())
    for k in sorted({count, *(2**power for power in range(count.bit_length()) if 2**power <= count)}):
        metrics.add_ratio(f"pass@{k}", pass_at_k(passed, k).sum(), len(passed))
