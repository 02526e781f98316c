"""How far the engine that sampled and the trainer disagree on the same tokens, and a bounded correction.

Kernels, precision and caches differ, so the policy that acted is not quite the one whose log-probabilities the trainer
computes. This is `importance_correction_cap` of docs/grpo.md; the truncated weight is that of IMPALA, arXiv:1802.01561,
used a token.
"""

from torch import Tensor

from llm_rl.core import MetricAccumulator, importance_ratio, masked_sum


def truncated_importance_weight(trainer_logps: Tensor, engine_logps: Tensor, mask: Tensor, cap: float) -> Tensor:
    """min(π_trainer / π_engine, cap) a token, a constant factor of the objective.

    Args:
        trainer_logps: `(B, T)`, log-probabilities at sampling as the trainer computes them.
        engine_logps: `(B, T)`, as the engine sampled them.
        mask: bool `(B, T)`; elsewhere anything.
        cap: Largest weight, > 0.

    Returns:
        `(B, T)` without gradient; 1, at most `cap`, outside the mask.
    """
    trainer, engine = (values.detach().masked_fill(~mask, 0.0) for values in (trainer_logps, engine_logps))
    return importance_ratio(trainer, engine).clamp(max=cap)


def record_mismatch(metrics: MetricAccumulator, trainer_logps: Tensor, engine_logps: Tensor, mask: Tensor) -> None:
    """Adds "engine_logp_diff_mean" and "engine_logp_diff_max", of |log π_trainer − log π_engine| over a mask."""
    difference = (trainer_logps.detach() - engine_logps).abs().masked_fill(~mask, 0.0)
    metrics.add_ratio("engine_logp_diff_mean", masked_sum(difference, mask), mask.sum())
    metrics.add_max("engine_logp_diff_max", difference.max())
