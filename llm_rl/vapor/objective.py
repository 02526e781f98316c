"""VAPOR's objective: a verifiable ratio and a preference term in one clipped surrogate, averaged over a whole step.

Source: docs/vapor.md, 'The objective'; the form there is the default of `VaporConfig`, and every field is a departure
that can be asked for. Shapes as in `ratios`.

The preference term multiplies all completions of a prompt alike. At the first update every ratio is 1 and the
advantages of a group sum to 0, so then its gradient is 0; `pref_loss_weight` adds a direct one.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from llm_rl.core import (
    ClipConfig,
    KLEstimator,
    LossCounts,
    Scale,
    aggregate_loss,
    approx_kl,
    loss_counts,
    masked_mean,
    pairwise_loss,
)
from llm_rl.core._checks import check_choices, check_rate
from llm_rl.core._options import option
from llm_rl.vapor.ratios import (
    ClipOn,
    PreferencePair,
    RatioLevel,
    preference_log_term,
    vapor_advantage,
    vapor_surrogate,
    verifiable_log_ratio,
)

RatioBase = Literal["ref", "old"]


@dataclass
class VaporConfig(ClipConfig):
    """Parameters of the objective; `beta` is the strength of the preference, `kl_weight` the weight of the divergence.

    Raises:
        ValueError: A weight is negative, a clip range out of its own, or a name unknown.
    """

    beta: float = option(0.1, "Strength of the preference, as in DPO; 0: its term is 1.")
    kl_weight: float = option(0.04, "w1: weight of the divergence from the reference.")
    kl_estimator: KLEstimator = option("k3", "A token's divergence: k1, k2 or k3 of the sample.")
    ratio_base: RatioBase = option("ref", "The verifiable ratio is against ref, or old, at sampling.")
    ratio_level: RatioLevel = option("sum", "Log-ratio over s_i: sum or mean, or one a token (token).")
    clip_on: ClipOn = option(
        "product", "The clip acts on the product, or on the verifiable ratio with the preference as a factor."
    )
    pref_loss_weight: float = option(0.0, "Weight of a direct -log sigmoid(beta * margin), the loss of DPO.")
    advantage_scale: Scale = option("none", "Advantages as they are (none) or over the group's std.")

    def __post_init__(self) -> None:
        for name in ("beta", "kl_weight", "pref_loss_weight"):
            check_rate(name, getattr(self, name))
        ClipConfig.__post_init__(self)
        check_choices(self)


class VaporBatch(NamedTuple):
    """What the objective of a micro-batch of whole prompts is made from.

    Attributes:
        logprobs: `(Q, G, T)`, log π of the completions' tokens.
        ref_logprobs: `(Q, G, T)`, the same under the reference, constants.
        old_logprobs: `(Q, G, T)`, the same under the policy that sampled; None where `ratio_base` is "ref".
        completion_mask: bool `(Q, G, T)`, the tokens of the completions, for the KL.
        spans: bool `(Q, G, T)`, the tokens of s_i; a row of False where it was not found.
        rewards: `(Q, G)`, of s_i; anything where it was not found.
        pair: Log-probabilities of the preference pairs.
    """

    logprobs: Tensor
    ref_logprobs: Tensor
    old_logprobs: Tensor | None
    completion_mask: Tensor
    spans: Tensor
    rewards: Tensor
    pair: PreferencePair


class VaporTerms(NamedTuple):
    """The objective before any mean, so that an optimizer step can be normalized as a whole.

    Attributes:
        surrogate: `(Q, G)`, min(r′A, clip(r′)A), to be maximized; at the level "token" the mean over the tokens of s_i.
        kl: `(Q, G, T)`, estimates of KL(π ‖ π_ref) a token.
        preference_loss: `(Q, C)`, −log σ(β·margin); 0 where a response was not found.
        advantages: `(Q, G)`.
        verifiable: `(Q, G, 1)` or `(Q, G, T)`, logarithm of the verifiable term, without gradient.
        preference: `(Q, C)`, logarithm of the preference term, without gradient: above 0 the preference is right.
        clipped: bool `(Q, G)`, clipping is what acted (on any token).
        found: bool `(Q, G)`, s_i was found.
        pair_found: bool `(Q, C)`, both responses were found.
    """

    surrogate: Tensor
    kl: Tensor
    preference_loss: Tensor
    advantages: Tensor
    verifiable: Tensor
    preference: Tensor
    clipped: Tensor
    found: Tensor
    pair_found: Tensor


def vapor_terms(batch: VaporBatch, config: VaporConfig) -> VaporTerms:
    """Every term of the objective for each completion and pair; what was not found is neutral.

    Args:
        batch: Log-probabilities, masks and rewards.
        config: Parameters of the objective.

    Returns:
        The terms, not yet averaged.

    Raises:
        ValueError: Shapes do not fit, a reference carries a gradient, or the base of the ratio is missing.
    """
    base = batch.ref_logprobs if config.ratio_base == "ref" else batch.old_logprobs
    if base is None:
        raise ValueError("ratio_base is 'old' but old_logprobs is None; pass the log-probabilities at sampling")
    constants = {"ref_logprobs": batch.ref_logprobs, "base of the ratio": base}
    constants |= {"chosen_ref": batch.pair.chosen_ref, "rejected_ref": batch.pair.rejected_ref}
    for name, constant in constants.items():
        if constant.requires_grad:
            raise ValueError(f"{name} carries a gradient; it is a constant of the objective (use .detach())")
    # In logarithms, so that the product of both terms is a sum, and what was not found adds 0 to it.
    found = batch.spans.any(-1)
    advantages = vapor_advantage(batch.rewards, found, config.advantage_scale)
    verifiable = verifiable_log_ratio(batch.logprobs, base, batch.spans, config.ratio_level)
    preference = preference_log_term(batch.pair, config.beta)
    objective, clipped = vapor_surrogate(
        verifiable, preference, advantages, clip_low=config.clip_low, clip_high=config.clip_high, clip_on=config.clip_on
    )
    # A completion without s_i has the ratio 1 at every token, so any token stands for it.
    units = batch.spans | ~found.unsqueeze(-1) if config.ratio_level == "token" else torch.ones_like(clipped)
    kept = batch.completion_mask
    new, ref = batch.logprobs.masked_fill(~kept, 0.0), batch.ref_logprobs.masked_fill(~kept, 0.0)
    pair_found = batch.pair.found
    return VaporTerms(
        surrogate=masked_mean(objective, units, -1),
        kl=approx_kl(new, ref, estimator=config.kl_estimator),
        preference_loss=pairwise_loss(preference, beta=1.0).masked_fill(~pair_found, 0.0),  # β is in the term
        advantages=advantages,
        verifiable=verifiable.detach(),
        preference=preference.detach(),
        clipped=(clipped & units).any(-1),
        found=found,
        pair_found=pair_found,
    )


class VaporCounts(NamedTuple):
    """What an optimizer step divides by; the counts of micro-batches and processes are added up.

    Attributes:
        samples: int64 scalar, completions, those without s_i included.
        completions: Completions with a token, which the divergence is averaged over.
        pairs: int64 scalar, preference pairs of which both responses were found.
    """

    samples: Tensor
    completions: LossCounts
    pairs: Tensor


class VaporLoss(NamedTuple):
    """Scalars; `loss` is −surrogate + w₁ · kl + weight · preference.

    Attributes:
        loss: The scalar to be minimized.
        surrogate: Mean over completions.
        kl: Mean over completions of the mean over tokens.
        preference: Mean over the pairs that were found.
    """

    loss: Tensor
    surrogate: Tensor
    kl: Tensor
    preference: Tensor


def vapor_counts(batch: VaporBatch) -> VaporCounts:
    """The counts of one micro-batch."""
    samples = torch.tensor(batch.rewards.numel(), device=batch.rewards.device)
    return VaporCounts(samples, loss_counts(batch.completion_mask.flatten(0, 1)), batch.pair.found.sum())


def vapor_loss(
    terms: VaporTerms, batch: VaporBatch, config: VaporConfig, counts: VaporCounts | None = None
) -> VaporLoss:
    """The loss −J of docs/vapor.md, or a micro-batch's share of it.

    Args:
        terms: The terms of `batch`.
        batch: What the terms were made from by `vapor_terms`.
        config: Parameters of the objective.
        counts: Counts of the whole optimizer step, so that the shares of its micro-batches add up. None: of `batch`.

    Returns:
        The loss and its parts, each with gradient; a term without weight is left out of the loss.
    """
    counts = vapor_counts(batch) if counts is None else counts
    surrogate = terms.surrogate.sum() / counts.samples
    mask = batch.completion_mask.flatten(0, 1)
    kl = aggregate_loss(terms.kl.flatten(0, 1), mask, "grpo", counts.completions)
    preference = terms.preference_loss.sum() / counts.pairs.clamp(min=1)
    loss = -surrogate
    if config.kl_weight:
        loss = loss + config.kl_weight * kl
    if config.pref_loss_weight:
        loss = loss + config.pref_loss_weight * preference
    return VaporLoss(loss, surrogate, kl, preference)
