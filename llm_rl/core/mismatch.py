"""How far the engine that sampled and the trainer disagree on the same tokens, and what can be done about it.

Kernels, precision, caches and age differ, so the policy that acted is not quite the one whose log-probabilities the
trainer computes. Sources: the truncated weight, IMPALA, arXiv:1802.01561, used a token; weights of whole sequences and
masks, arXiv:2510.26788 and the names of TRL's `vllm_importance_sampling_mode`.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from llm_rl.core._checks import check_choice, check_mask
from llm_rl.core.aggregate import masked_sum
from llm_rl.core.kl import approx_kl
from llm_rl.core.metrics import MetricAccumulator
from llm_rl.core.surrogate import importance_ratio, log_ratio

CorrectionLevel = Literal["token", "sequence"]
CorrectionMode = Literal["truncate", "mask"]


@torch.no_grad()
def importance_weight(
    trainer_logps: Tensor,
    engine_logps: Tensor,
    mask: Tensor,
    *,
    level: CorrectionLevel = "token",
    mode: CorrectionMode = "truncate",
    low: float = 0.0,
    high: float = math.inf,
) -> Tensor:
    """w = π_trainer / π_engine, held within [low, high] or 0 beyond it: a constant factor of the objective.

    Args:
        trainer_logps: `(B, T)`, log-probabilities at sampling as the trainer computes them.
        engine_logps: `(B, T)`, as the engine sampled them.
        mask: bool `(B, T)`; elsewhere anything.
        level: One weight a token, or one a sequence, the product over its tokens.
        mode: "truncate" moves a weight to the nearer bound, "mask" makes it 0.
        low: Smallest weight, ≥ 0.
        high: Largest weight, > 0 and not below `low`.

    Returns:
        `(B, T)` without gradient; outside the mask a weight as well.

    Raises:
        ValueError: Shapes do not fit, a name is unknown or a bound out of range.
    """
    check_choice("level", level, CorrectionLevel)
    check_choice("mode", mode, CorrectionMode)
    if not 0 <= low <= high or not high > 0:
        raise ValueError(f"the weight's bounds are {low!r} and {high!r}; it takes 0 <= low <= high and high > 0")
    weight = _ratio(trainer_logps, engine_logps, mask, level)  # (B, T)
    if mode == "truncate":
        return weight.clamp(low, high)
    return weight.masked_fill((weight < low) | (weight > high), 0.0)


@torch.no_grad()
def record_mismatch(metrics: MetricAccumulator, trainer_logps: Tensor, engine_logps: Tensor, mask: Tensor) -> None:
    """Adds how far engine and trainer are apart on a micro-batch; exact over any split.

    - "engine_logp_diff_mean" and "engine_logp_diff_max", of |log π_trainer − log π_engine| a token;
    - "engine_kl", the estimate k3 of KL(π_engine ‖ π_trainer) a token;
    - "engine_chi2" and "engine_chi2_sequence", E[w²] − 1 of the weights of tokens and of whole sequences: the
      divergence χ², which is what a correction adds to the variance;
    - "engine_ess", the effective sample size (Σw)² / (n Σw²) of the tokens' weights: 1 where there is nothing to
      correct.

    Log-probabilities and the mask are those of `importance_weight`, as are the errors.
    """
    check_mask(mask, "engine_logps", engine_logps)
    trainer, engine = (values.masked_fill(~mask, 0.0) for values in (trainer_logps, engine_logps))
    tokens, rows = mask.sum(), mask.any(-1)
    difference = (trainer - engine).abs()
    metrics.add_ratio("engine_logp_diff_mean", masked_sum(difference, mask), tokens)
    metrics.add_max("engine_logp_diff_max", difference.max())
    metrics.add_ratio("engine_kl", masked_sum(approx_kl(engine, trainer), mask), tokens)
    # What does not count has the weight 1 in both: no index picks the others, for which a card would be waited for.
    weights = _ratio(trainer_logps, engine_logps, mask, "token").double()
    of_rows = _ratio(trainer_logps, engine_logps, mask, "sequence").double()
    metrics.add_ratio("engine_chi2", (weights.square() - 1).sum(), tokens)
    metrics.add_ratio("engine_chi2_sequence", (of_rows[:, 0].square() - 1).sum(), rows.sum())
    metrics.add_effective_size("engine_ess", weights.masked_fill(~mask, 0.0), tokens)


def _ratio(trainer_logps: Tensor, engine_logps: Tensor, mask: Tensor, level: CorrectionLevel) -> Tensor:
    """π_trainer / π_engine `(B, T)`, of the token or of the whole sequence; 1 outside the mask at the level "token"."""
    check_mask(mask, "trainer_logps", trainer_logps)
    check_mask(mask, "engine_logps", engine_logps)
    trainer, engine = (values.detach().masked_fill(~mask, 0.0) for values in (trainer_logps, engine_logps))
    if level == "token":
        return importance_ratio(trainer, engine)
    both = log_ratio(trainer, engine, max_log_ratio=math.inf).sum(-1, keepdim=True)
    return importance_ratio(both, torch.zeros_like(both)).expand(mask.shape)
