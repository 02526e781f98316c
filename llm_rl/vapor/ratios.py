"""The factors of VAPOR's objective in log space: verifiable term, preference term, advantage, clipped product.

Source: docs/vapor.md, 'The objective'. C is 1 where a prompt's preference pair stands alone (static) and G where it
follows each completion's own s_i. Logarithms are clamped to ±20 (`core.MAX_LOG_RATIO`) before an exponential, so no
finite log-probability overflows; beyond the clamp a gradient is 0.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from llm_rl.core import (
    MAX_LOG_RATIO,
    Scale,
    clipped_surrogate,
    group_relative_advantage,
    span_log_ratio,
    token_log_ratio,
)
from llm_rl.core._checks import check_choice, check_mask, check_same_shape

RatioLevel = Literal["sum", "mean", "token"]
ClipOn = Literal["product", "verifiable"]


def span_mask(spans: Sequence[tuple[int, int] | None], length: int, device: torch.device | None = None) -> Tensor:
    """bool `(B, length)`, True in each span; a row of False for None, the span that was not found.

    Args:
        spans: B pairs `(start, stop)` or None, as `spans.find_and_map_token_indices` returns them.
        length: Columns, at least the largest stop.
        device: Device of the result.

    Raises:
        ValueError: A span is empty or does not fit into `length`.
    """
    for span in spans:
        if span is not None and not 0 <= span[0] < span[1] <= length:
            raise ValueError(f"span {span} does not fit into 0 … {length}; a span that was not found is None")
    start, stop = torch.tensor([span or (0, 0) for span in spans], dtype=torch.int64, device=device).view(-1, 2).T
    steps = torch.arange(length, device=device)
    return (steps >= start[:, None]) & (steps < stop[:, None])


def vapor_advantage(rewards: Tensor, found: Tensor, scale: Scale = "none") -> Tensor:
    """The advantage A: reward minus group mean, where a completion without s_i has reward 0 and takes part.

    Args:
        rewards: `(Q, G)`; anything where `found` is False, NaN included.
        found: bool `(Q, G)`: whether the verifiable part was found.
        scale: What a difference is divided by, `objective.VaporConfig.advantage_scale`.

    Returns:
        `(Q, G)` without gradient; 0 in a group without spread.

    Raises:
        ValueError: Shapes do not fit or the name is unknown.
    """
    check_mask(found, "rewards", rewards)
    return group_relative_advantage(rewards.masked_fill(~found, 0.0), scale=scale)


def verifiable_log_ratio(logprobs: Tensor, base_logprobs: Tensor, spans: Tensor, level: RatioLevel = "sum") -> Tensor:
    """log π(s_i|p) − log π_base(s_i|p): the logarithm of the verifiable term.

    Args:
        logprobs: `(…, T)`; outside the spans anything.
        base_logprobs: `(…, T)`, constants: the reference's, or those of the policy that sampled.
        spans: bool `(…, T)`, the tokens of s_i; a row of False where it was not found.
        level: What the log-ratio is taken over, `objective.VaporConfig.ratio_level`.

    Returns:
        `(…, 1)`, or `(…, T)` for "token"; within ±20; 0 without gradient where there is no span.

    Raises:
        ValueError: Shapes do not fit or the level is unknown.
    """
    check_choice("level", level, RatioLevel)
    if level == "token":
        tokens = token_log_ratio(logprobs, base_logprobs, spans)
        return tokens.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    unit = span_log_ratio(logprobs, base_logprobs, spans, level)
    return unit.unsqueeze(-1).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


class PreferencePair(NamedTuple):
    """The tokens of chosen and rejected responses, `(Q, C, T)` each, T apart.

    Attributes:
        chosen: log π of the chosen response's tokens.
        chosen_ref: Those of y_w under the reference, constants.
        chosen_span: bool, the tokens of y_w; a row of False where it was not found.
        rejected: log π of the rejected response's tokens.
        rejected_ref: Those of y_l under the reference, constants.
        rejected_span: bool, the tokens of y_l, likewise.
    """

    chosen: Tensor
    chosen_ref: Tensor
    chosen_span: Tensor
    rejected: Tensor
    rejected_ref: Tensor
    rejected_span: Tensor

    @property
    def found(self) -> Tensor:
        """bool `(Q, C)`: both spans were found."""
        return self.chosen_span.any(-1) & self.rejected_span.any(-1)


def preference_margin(pair: PreferencePair) -> Tensor:
    """log π/π_ref(y_w) − log π/π_ref(y_l): above 0 the policy moved to the preferred response.

    Args:
        pair: The log-probabilities and spans.

    Returns:
        `(Q, C)`, finite for finite inputs; 0 without gradient where either span was not found.

    Raises:
        ValueError: Shapes do not fit.
    """
    check_same_shape("chosen[..., 0]", pair.chosen[..., 0], "rejected[..., 0]", pair.rejected[..., 0])
    chosen = span_log_ratio(pair.chosen, pair.chosen_ref, pair.chosen_span, "sum")
    rejected = span_log_ratio(pair.rejected, pair.rejected_ref, pair.rejected_span, "sum")
    return (chosen - rejected).masked_fill(~pair.found, 0.0)


def preference_log_term(pair: PreferencePair, beta: float) -> Tensor:
    """The logarithm of the preference term, β · `preference_margin`, within ±20, for β ≥ 0."""
    return (beta * preference_margin(pair)).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def vapor_surrogate(
    verifiable: Tensor,
    preference: Tensor,
    advantages: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    clip_on: ClipOn = "product",
) -> tuple[Tensor, Tensor]:
    """min(r′A, clip(r′)A) with r′ = verifiable · preference; clip on "verifiable": see below.

    With the clip on the verifiable ratio v alone and the preference term f outside, it is f · min(v·A, clip(v)·A).

    Args:
        verifiable: `(Q, G, U)`, logarithm of the verifiable term, a column for each unit that has a ratio.
        preference: `(Q, C)`, logarithm of the preference term.
        advantages: `(Q, G)`, constants, at most 1e20 in magnitude (rewards are, see `rewards.MAX_REWARD`).
        clip_low: How far below 1 the ratio may fall, `objective.VaporConfig.clip_low`.
        clip_high: How far above 1 the ratio may rise, `objective.VaporConfig.clip_high`.
        clip_on: What is clipped, `objective.VaporConfig.clip_on`.

    Returns:
        Objective and bool "clipping is what acted", `(Q, G, U)` each.

    Raises:
        ValueError: Shapes do not fit, a constant carries a gradient, or an argument is out of range.
    """
    check_choice("clip_on", clip_on, ClipOn)
    check_same_shape("advantages", advantages, "verifiable[..., 0]", verifiable[..., 0])
    if preference.ndim != 2 or preference.shape[0] != advantages.shape[0]:
        raise ValueError(f"preference has shape {tuple(preference.shape)}; advantages ask for ({len(advantages)}, C)")
    if preference.shape[1] not in (1, advantages.shape[1]):
        raise ValueError(
            f"preference has {preference.shape[1]} columns; give one a prompt or one for each of the "
            f"{advantages.shape[1]} completions"
        )
    factor = preference.unsqueeze(-1).expand_as(verifiable)  # (Q, G, U)
    log_ratio = verifiable + factor if clip_on == "product" else verifiable
    advantages = advantages.unsqueeze(-1)
    output = clipped_surrogate(log_ratio, torch.zeros_like(log_ratio), advantages, clip_low, clip_high)
    objective = output.objective if clip_on == "product" else output.objective * factor.exp()
    return objective, output.clipped
