"""Pure functions on tensors: returns, advantages, surrogates, KL, log-probabilities, aggregation, metrics.

No model, no trainer, no input or output; torch is the only import. A formula has one function here, and autoregressive
and masked-diffusion trainers call the same one. Conventions:

- Time runs forward: step k follows step k-1 along the last dimension.
- Masks are bool and True for what counts.
- Half precision comes in, float32 goes out; float64 stays float64.
- A wrong shape, dtype or range raises `ValueError` before anything is computed.
- Objectives are to be maximized; the trainer turns the sign.
"""

from llm_rl.core.advantages import (
    Baseline,
    GroupStatistics,
    Scale,
    discounted_return_to_go,
    ema_update,
    group_relative_advantage,
    group_statistics,
    return_after_action,
)
from llm_rl.core.aggregate import Reduction, aggregate, loss_weights, masked_mean, masked_sum
from llm_rl.core.kl import KLEstimator, approx_kl, kl_divergence
from llm_rl.core.logprobs import (
    chunked_logprobs,
    entropy_from_logits,
    masked_log_softmax,
    next_token_logprobs,
    selective_log_softmax,
)
from llm_rl.core.metrics import MetricAccumulator
from llm_rl.core.surrogate import SurrogateOutput, clipped_surrogate, importance_ratio, log_ratio

__all__ = [
    "Baseline",
    "GroupStatistics",
    "KLEstimator",
    "MetricAccumulator",
    "Reduction",
    "Scale",
    "SurrogateOutput",
    "aggregate",
    "approx_kl",
    "chunked_logprobs",
    "clipped_surrogate",
    "discounted_return_to_go",
    "ema_update",
    "entropy_from_logits",
    "group_relative_advantage",
    "group_statistics",
    "importance_ratio",
    "kl_divergence",
    "log_ratio",
    "loss_weights",
    "masked_log_softmax",
    "masked_mean",
    "masked_sum",
    "next_token_logprobs",
    "return_after_action",
    "selective_log_softmax",
]
