"""Importance ratios of tokens, spans and sequences, laid out a token so that one surrogate and one loss serve all.

Source of the sequence level: GSPO, arXiv:2507.18071, equation 7: s_i = (π(y_i|x) / π_old(y_i|x))^{1/|y_i|}, the
geometric mean of the token ratios; equation 13 for "sequence_token", GSPO-token: the same value with each token's own
gradient, so that tokens of a sequence may have different advantages. A span is the same over a part of the sequence: a
turn, a step of reasoning.
"""

from typing import Literal

import torch
from torch import Tensor

from llm_rl.core._checks import check_choice, check_mask, check_rank, check_same_shape
from llm_rl.core.aggregate import masked_mean, masked_sum
from llm_rl.core.surrogate import log_ratio

RatioLevel = Literal["token", "sequence", "sequence_token", "span"]
RatioReduction = Literal["mean", "sum"]

MAX_TOKEN_LOG_RATIO = 1e30
"""Bound on a token's log-ratio inside a sum: infinite for any purpose, and 1e8 of them still add up in float32."""


def span_log_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor, reduction: RatioReduction = "mean") -> Tensor:
    """log π − log π_old of all counted tokens of a row together.

    Args:
        logprobs: `(…, T)`, log-probabilities of the tokens; outside the mask anything, NaN included.
        old_logprobs: `(…, T)`, the same under the distribution to compare with.
        mask: bool `(…, T)`: the tokens that count.
        reduction: "mean" over them, GSPO's, or "sum", the ratio of the probabilities of the whole.

    Returns:
        `(…)` float32 (float64 where an input is), finite for finite inputs, not clamped for the exponential; 0 with
        gradient 0 where nothing counts.

    Raises:
        ValueError: Shapes do not fit, or the name is unknown.
    """
    check_choice("reduction", reduction, RatioReduction)
    tokens = _token_log_ratio(logprobs, old_logprobs, mask)
    return masked_mean(tokens, mask, -1) if reduction == "mean" else masked_sum(tokens, mask, -1)


def leveled_log_ratio(
    logprobs: Tensor,
    old_logprobs: Tensor,
    mask: Tensor,
    *,
    level: RatioLevel = "token",
    span_ids: Tensor | None = None,
    reduction: RatioReduction = "mean",
) -> Tensor:
    """log π − log π_old of the unit that each token belongs to.

    Feed it to the surrogate in place of the two log-probabilities: `clipped_surrogate(leveled,
    torch.zeros_like(leveled), advantages, …)`. All tokens of a unit share the value, so under the loss type "grpo" a
    sequence enters once with its ratio, and each token's gradient is the unit's, divided as the reduction says.

    Args:
        logprobs: `(…, T)`, log-probabilities of the tokens; outside the mask anything, NaN included.
        old_logprobs: `(…, T)`, the same under the policy that acted.
        mask: bool `(…, T)`: the tokens that count.
        level: "token", "sequence", the counted tokens of a row together, "sequence_token", their value with the
            gradient of the token alone, or "span", those with one span id.
        span_ids: int64 `(…, T)`, ≥ 0 where the mask is True, the span of each token within its row; needed for "span"
            alone. Spans need not be contiguous.
        reduction: "mean" over the tokens of a unit, GSPO's, or "sum", the plain ratio of the unit's probabilities.

    Returns:
        `(…, T)` float32 (float64 where an input is), finite for finite inputs, 0 with gradient 0 outside the mask. Not
        yet clamped for the exponential: the surrogate does that.

    Raises:
        ValueError: Shapes do not fit, a name is unknown, or `span_ids` is missing, superfluous or negative.
    """
    check_choice("level", level, RatioLevel)
    check_choice("reduction", reduction, RatioReduction)
    if (span_ids is not None) != (level == "span"):
        raise ValueError(
            f"level {level!r} {'needs' if span_ids is None else 'takes no'} span_ids, the span of each token"
        )
    if level in ("sequence", "sequence_token"):
        unit = span_log_ratio(logprobs, old_logprobs, mask, reduction)
        leveled = unit.unsqueeze(-1).expand(mask.shape).masked_fill(~mask, 0.0)
        if level == "sequence":
            return leveled
    tokens = _token_log_ratio(logprobs, old_logprobs, mask)
    if level == "sequence_token":
        return leveled.detach() + tokens - tokens.detach()
    if span_ids is None:
        return tokens
    check_same_shape("span_ids", span_ids, "logprobs", logprobs)
    if span_ids.dtype != torch.int64 or (span_ids[mask] < 0).any():
        raise ValueError("span_ids must be int64 and 0 or greater where the mask is True")
    spans = span_ids.masked_fill(~mask, 0)
    shape = (*mask.shape[:-1], int(spans.max()) + 1)
    total = tokens.new_zeros(shape).scatter_add(-1, spans, tokens)
    if reduction == "mean":
        sizes = tokens.new_zeros(shape).scatter_add(-1, spans, mask.to(tokens.dtype))
        total = total / sizes.clamp(min=1)
    return total.gather(-1, spans).masked_fill(~mask, 0.0)


def _token_log_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    check_rank("logprobs", logprobs, 1, "(…, T)")
    check_mask(mask, "logprobs", logprobs)
    check_same_shape("old_logprobs", old_logprobs, "logprobs", logprobs)
    new, old = logprobs.masked_fill(~mask, 0.0), old_logprobs.masked_fill(~mask, 0.0)
    return log_ratio(new, old, max_log_ratio=MAX_TOKEN_LOG_RATIO)
