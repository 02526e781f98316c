"""VAPOR (docs/vapor.md): verifiable reward and preference in one ratio. Pure functions on tensors, and the trainer."""

from llm_rl.vapor.arguments import VAPORArguments
from llm_rl.vapor.objective import (
    RatioBase,
    VaporBatch,
    VaporConfig,
    VaporCounts,
    VaporLoss,
    VaporTerms,
    vapor_counts,
    vapor_loss,
    vapor_terms,
)
from llm_rl.vapor.ratios import (
    ClipOn,
    PreferencePair,
    RatioLevel,
    preference_log_term,
    preference_margin,
    span_mask,
    vapor_advantage,
    vapor_surrogate,
    verifiable_log_ratio,
)
from llm_rl.vapor.trainer import VAPORTrainer

__all__ = [
    "ClipOn",
    "PreferencePair",
    "RatioBase",
    "RatioLevel",
    "VAPORArguments",
    "VAPORTrainer",
    "VaporBatch",
    "VaporConfig",
    "VaporCounts",
    "VaporLoss",
    "VaporTerms",
    "preference_log_term",
    "preference_margin",
    "span_mask",
    "vapor_advantage",
    "vapor_counts",
    "vapor_loss",
    "vapor_surrogate",
    "vapor_terms",
    "verifiable_log_ratio",
]
