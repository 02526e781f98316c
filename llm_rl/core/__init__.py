"""Pure functions on tensors: returns, advantages, ratios, surrogates, KL, log-probabilities, aggregation, metrics.

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
    RewardScale,
    Scale,
    discounted_return_to_go,
    group_relative_advantage,
    group_statistics,
    groups_without_spread,
    return_after_action,
)
from llm_rl.core.aggregate import Reduction, aggregate, loss_weights, masked_mean, masked_sum
from llm_rl.core.gae import GaeOutput, generalized_advantage
from llm_rl.core.kl import KLEstimator, approx_kl, chunked_kl_divergence, kl_divergence, rewards_with_kl
from llm_rl.core.logprobs import entropy_from_logits, masked_log_softmax, next_token_logprobs, selective_log_softmax
from llm_rl.core.loss_types import LossCounts, LossType, aggregate_loss, loss_counts, loss_type_weights
from llm_rl.core.metrics import MetricAccumulator
from llm_rl.core.monitors import PolicyTensors, record_monitors
from llm_rl.core.preference import PreferenceLoss, dpo_loss, pairwise_loss, preference_margins
from llm_rl.core.ratio_levels import RatioLevel, RatioReduction, leveled_log_ratio, span_log_ratio, token_log_ratio
from llm_rl.core.surrogate import (
    MAX_LOG_RATIO,
    ClipConfig,
    SurrogateOutput,
    clipped_surrogate,
    importance_ratio,
    log_ratio,
)
from llm_rl.core.token_statistics import TokenStatistics, linear_token_statistics, token_statistics
from llm_rl.core.value_loss import ValueLoss, explained_variance, value_loss
from llm_rl.core.whitening import Moments, masked_moments, whiten

__all__ = [
    "MAX_LOG_RATIO",
    "Baseline",
    "ClipConfig",
    "GaeOutput",
    "GroupStatistics",
    "KLEstimator",
    "LossCounts",
    "LossType",
    "MetricAccumulator",
    "Moments",
    "PolicyTensors",
    "PreferenceLoss",
    "RatioLevel",
    "RatioReduction",
    "Reduction",
    "RewardScale",
    "Scale",
    "SurrogateOutput",
    "TokenStatistics",
    "ValueLoss",
    "aggregate",
    "aggregate_loss",
    "approx_kl",
    "chunked_kl_divergence",
    "clipped_surrogate",
    "discounted_return_to_go",
    "dpo_loss",
    "entropy_from_logits",
    "explained_variance",
    "generalized_advantage",
    "group_relative_advantage",
    "group_statistics",
    "groups_without_spread",
    "importance_ratio",
    "kl_divergence",
    "leveled_log_ratio",
    "linear_token_statistics",
    "log_ratio",
    "loss_counts",
    "loss_type_weights",
    "loss_weights",
    "masked_log_softmax",
    "masked_mean",
    "masked_moments",
    "masked_sum",
    "next_token_logprobs",
    "pairwise_loss",
    "preference_margins",
    "record_monitors",
    "return_after_action",
    "rewards_with_kl",
    "selective_log_softmax",
    "span_log_ratio",
    "token_log_ratio",
    "token_statistics",
    "value_loss",
    "whiten",
]
