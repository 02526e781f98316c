"""Log-ratios of tokens, and of the tokens of a span together.

Source of the mean over a span: GSPO, arXiv:2507.18071, equation 7: s_i = (π(y_i|x) / π_old(y_i|x))^{1/|y_i|}, the
geometric mean of the token ratios; here a span is any part of a sequence.
"""

from typing import Literal

from torch import Tensor

from llm_rl.core._checks import check_choice, check_mask, check_rank, check_same_shape
from llm_rl.core.aggregate import masked_mean, masked_sum
from llm_rl.core.surrogate import log_ratio

RatioReduction = Literal["mean", "sum"]
RatioLevel = Literal["token", "sequence", "sequence_token"]

MAX_TOKEN_LOG_RATIO = 1e30
"""Bound on a token's log-ratio inside a sum: infinite for any purpose, and 1e8 of them still add up in float32."""


def token_log_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """log π − log π_old of each counted token.

    Feed it to the surrogate in place of the two log-probabilities: `clipped_surrogate(ratio, torch.zeros_like(ratio),
    advantages, …)`.

    Args:
        logprobs: `(…, T)`, log-probabilities of the tokens; outside the mask anything, NaN included.
        old_logprobs: `(…, T)`, the same under the distribution to compare with.
        mask: bool `(…, T)`: the tokens that count.

    Returns:
        `(…, T)` float32 (float64 where an input is), finite for finite inputs, 0 with gradient 0 outside the mask. Not
        yet clamped for the exponential: the surrogate does that.

    Raises:
        ValueError: Shapes do not fit.
    """
    check_rank("logprobs", logprobs, 1, "(…, T)")
    check_mask(mask, "logprobs", logprobs)
    check_same_shape("old_logprobs", old_logprobs, "logprobs", logprobs)
    new, old = logprobs.masked_fill(~mask, 0.0), old_logprobs.masked_fill(~mask, 0.0)
    return log_ratio(new, old, max_log_ratio=MAX_TOKEN_LOG_RATIO)


def span_log_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor, reduction: RatioReduction = "mean") -> Tensor:
    """log π − log π_old of all counted tokens of a row together; arguments and errors as in `token_log_ratio`.

    The reduction is "mean" over the tokens, GSPO's, or "sum", the ratio of the probabilities of the whole.

    Returns:
        `(…)` float32 (float64 where an input is), finite for finite inputs, not clamped for the exponential; 0 with
        gradient 0 where nothing counts.
    """
    check_choice("reduction", reduction, RatioReduction)
    tokens = token_log_ratio(logprobs, old_logprobs, mask)
    return masked_mean(tokens, mask, -1) if reduction == "mean" else masked_sum(tokens, mask, -1)


def leveled_log_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor, level: RatioLevel) -> Tensor:
    """The log-ratio that each counted token is weighed by; arguments and errors as in `token_log_ratio`.

    With r_t that of the token and s the mean of the r_t of its row, GSPO's equations 7 and 14:

        token  r_t        sequence  s        sequence_token  sg[s] + r_t − sg[r_t]

    The last two have one value, so that the clip acts on whole rows, and one gradient where all tokens of a row have
    one advantage; where advantages differ by token, "sequence_token" gives each token its own.

    Returns:
        `(…, T)`, 0 with gradient 0 outside the mask.
    """
    check_choice("level", level, RatioLevel)
    tokens = token_log_ratio(logprobs, old_logprobs, mask)
    if level == "token":
        return tokens
    of_row = masked_mean(tokens, mask, -1).unsqueeze(-1)  # (…, 1)
    leveled = of_row if level == "sequence" else of_row.detach() + tokens - tokens.detach()
    return leveled.expand_as(tokens).masked_fill(~mask, 0.0)
