"""What VAPOR logs: the value of each term, failures, preferences."""

import torch
from torch import Tensor

from llm_rl.core import MAX_LOG_RATIO, MetricAccumulator, approx_kl, masked_mean, masked_sum
from llm_rl.training.symptoms import Symptom, everywhere
from llm_rl.vapor.objective import VaporBatch, VaporTerms
from llm_rl.vapor.ratios import PreferencePair, preference_margin

NOTHING_FOUND = Symptom(
    "verifiable_failure_frac",
    everywhere,
    "no completion had the verifiable part, so that none had a reward",
    "start from a model that was fine-tuned to write it, say in the prompts how, or give its tags as "
    "verifiable_term_split",
)


@torch.no_grad()
def record_vapor(metrics: MetricAccumulator, terms: VaporTerms, batch: VaporBatch, entropy: Tensor) -> None:
    """Adds the terms of a micro-batch and the monitors of every trainer; exact over any split of a step.

    "surrogate", "kl" and "preference_loss" are the parts of the loss before their weights. "verifiable_ratio" is the
    mean of the verifiable term where s_i was found, "preference_term" that of the preference term where the pair was.
    "clip_frac" counts completions, "clamped_frac" verifiable ratios at their clamp of e^±20. "approx_kl" (½ (log π −
    log π_old)²) and "entropy" are means over tokens, and "masked_frac" is the share of tokens outside s_i, which count
    in the divergence alone.

    `entropy`, `(Q, G, T)`, is of the distribution that each token was drawn from; `batch` has `old_logprobs`, else it
    is a `ValueError`.
    """
    if batch.old_logprobs is None:
        raise ValueError("old_logprobs is None; approx_kl is made from them")
    mask, tokens = batch.completion_mask, batch.completion_mask.sum()
    new, old = (values.masked_fill(~mask, 0.0) for values in (batch.logprobs, batch.old_logprobs))
    metrics.add_ratio("surrogate", terms.surrogate.sum(), terms.surrogate.numel())
    metrics.add_ratio("kl", masked_mean(terms.kl, mask, -1).sum(), mask.any(-1).sum())
    metrics.add_ratio("preference_loss", terms.preference_loss.sum(), terms.pair_found.sum())
    units = batch.spans if terms.verifiable.shape == batch.spans.shape else terms.found.unsqueeze(-1)
    metrics.add_ratio("verifiable_ratio", masked_sum(terms.verifiable.exp(), units), units.sum())
    metrics.add_ratio("preference_term", masked_sum(terms.preference.exp(), terms.pair_found), terms.pair_found.sum())
    metrics.add_ratio("clip_frac", terms.clipped.sum(), terms.clipped.numel())
    metrics.add_ratio("clamped_frac", (terms.verifiable.abs() >= MAX_LOG_RATIO)[units].sum(), units.sum())
    metrics.add_ratio("approx_kl", masked_sum(approx_kl(old, new, estimator="k2"), mask), tokens)
    metrics.add_ratio("entropy", masked_sum(entropy, mask), tokens)
    metrics.add_ratio("masked_frac", tokens - batch.spans.sum(), tokens)


@torch.no_grad()
def record_preferences(metrics: MetricAccumulator, pair: PreferencePair) -> None:
    """Adds "preference_margin", "preference_accuracy" (share above 0) and "preference_failure_frac".

    The margin is without β. It is 0, and so is the accuracy, where the policy is the reference.
    """
    margin, found = preference_margin(pair), pair.found
    metrics.add_ratio("preference_margin", margin.sum(), found.sum())
    metrics.add_ratio("preference_accuracy", (margin > 0).sum(), found.sum())
    metrics.add_ratio("preference_failure_frac", (~found).sum(), found.numel())
