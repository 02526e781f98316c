"""Kullback-Leibler divergence: estimators from samples, the exact sum over outcomes, and its use in the reward.

`approx_kl` and `kl_divergence` take their arguments in the order of KL(p ‖ q) = E_{x~p}[log p(x) − log q(x)].
Source of the estimators: J. Schulman, 'Approximating KL divergence', 2020, http://joschu.net/blog/kl-approx.html.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from llm_rl.core._checks import check_choice, check_mask, check_positive, check_same_shape, promote
from llm_rl.core.logprobs import masked_log_softmax
from llm_rl.core.surrogate import log_ratio

KLEstimator = Literal["k1", "k2", "k3"]


def approx_kl(logprobs_p: Tensor, logprobs_q: Tensor, *, estimator: KLEstimator = "k3") -> Tensor:
    """One-sample estimates of KL(p ‖ q), **for actions sampled from p**.

    With the log-ratio d = log q(x) − log p(x), clamped as `surrogate.log_ratio` says:

    - "k1": −d. Unbiased, of either sign, high variance.
    - "k2": d²/2. Biased, never negative, low variance.
    - "k3": e^d − 1 − d. Unbiased, never negative, low variance near p = q.

    Two uses:

    - How far training has moved since the roll-out: `approx_kl(old_logprobs, logprobs)` estimates KL(π_old ‖ π). With
      "k2" it is the `approx_kl` that every trainer logs, ½ (log π − log π_old)².
    - A penalty that keeps the policy near a reference: `approx_kl(logprobs, reference_logprobs)` estimates KL(π ‖
      π_ref) on samples from π. As a loss its gradient depends on the estimator, since none of them differentiates the
      sampling: in expectation it is 0 for "k1", that of KL(π ‖ π_ref) for "k2", and that of KL(π_ref ‖ π) for "k3"
      (GRPO's choice).

    Args:
        logprobs_p: Any shape, finite; log p(x) of the sampled actions, p the distribution that they were sampled from.
        logprobs_q: log q(x) of the same actions; same shape, finite.
        estimator: "k1", "k2" or "k3".

    Returns:
        Estimates of the shape of `logprobs_p`, float32 (float64 where an input is).

    Raises:
        ValueError: The shapes differ, or the estimator is unknown.
    """
    check_choice("estimator", estimator, KLEstimator)
    check_same_shape("logprobs_p", logprobs_p, "logprobs_q", logprobs_q)
    difference = log_ratio(logprobs_q, logprobs_p)
    if estimator == "k1":
        return -difference
    if estimator == "k2":
        return difference.square() / 2
    return torch.expm1(difference) - difference


def kl_divergence(logits_p: Tensor, logits_q: Tensor, mask: Tensor | None = None) -> Tensor:
    """KL(p ‖ q) summed over all outcomes, for p = softmax(logits_p) and q = softmax(logits_q).

    Args:
        logits_p: `(…, V)`; −inf marks an impossible outcome.
        logits_q: `(…, V)`, likewise.
        mask: bool `(…, V)`, the outcomes that exist. None: all of them.

    Returns:
        `(…)` float32 (float64 where an input is), ≥ 0 up to rounding. Outcomes impossible under p add 0; one that is
        possible under p and impossible under q makes the divergence inf; a row without any possible outcome under p
        has 0.

    Raises:
        ValueError: The shapes differ, or the mask does not fit.
    """
    check_same_shape("logits_p", logits_p, "logits_q", logits_q)
    logp, logq = masked_log_softmax(logits_p, mask), masked_log_softmax(logits_q, mask)
    possible_p, possible_q = logp != -torch.inf, logq != -torch.inf
    not_shared = ~(possible_p & possible_q)
    terms = logp.exp() * (logp.masked_fill(not_shared, 0.0) - logq.masked_fill(not_shared, 0.0))
    return terms.sum(-1).masked_fill((possible_p & ~possible_q).any(-1), torch.inf)


def chunked_kl_divergence(
    hidden_p: Tensor,
    hidden_q: Tensor,
    head_p: Callable[[Tensor], Tensor],
    head_q: Callable[[Tensor], Tensor],
    *,
    chunk_size: int = 128,
    temperature: float = 1.0,
) -> Tensor:
    """`kl_divergence` of softmax(head(hidden) / temperature), with at most `chunk_size` rows of logits in memory.

    The logits of a chunk are computed again in the backward pass instead of being kept.

    Args:
        hidden_p: `(…, D)`.
        hidden_q: `(…, D')`, the same rows under another model.
        head_p: Maps `(n, D)` to logits `(n, V)`, deterministically and row by row.
        head_q: Maps `(n, D')` to logits `(n, V)`, likewise.
        chunk_size: Rows at a time, ≥ 1.
        temperature: > 0.

    Returns:
        `(…)` float32 (float64 where an input is).

    Raises:
        ValueError: The rows differ or there is none, or a number is out of range.
    """
    check_positive("temperature", temperature)
    check_same_shape("hidden_p[..., 0]", hidden_p[..., 0], "hidden_q[..., 0]", hidden_q[..., 0])
    if chunk_size < 1 or not hidden_p[..., 0].numel():
        raise ValueError(
            f"chunk_size is {chunk_size!r} for hidden_p of {tuple(hidden_p.shape)}; give 1 or more of each"
        )

    def divergence(rows_p: Tensor, rows_q: Tensor) -> Tensor:
        return kl_divergence(promote(head_p(rows_p)) / temperature, promote(head_q(rows_q)) / temperature)

    pairs = zip(hidden_p.flatten(0, -2).split(chunk_size), hidden_q.flatten(0, -2).split(chunk_size), strict=True)
    parts = [checkpoint(divergence, *pair, use_reentrant=False) for pair in pairs]
    return torch.cat(parts).reshape(hidden_p.shape[:-1])


@torch.no_grad()
def rewards_with_kl(scores: Tensor, kl: Tensor, mask: Tensor, coefficient: float) -> Tensor:
    """Rewards a token, −coefficient · KL at each and the score on top at the last: the penalty in the reward.

    In the loss it is `objective − coefficient · kl` a token instead, before aggregation, see docs/grpo.md.
    Source: arXiv:1909.08593, section 2. The sum over a row is score − coefficient · Σ KL, the reward of the whole
    completion for methods without time.

    Args:
        scores: `(…)`, the reward of each completion.
        kl: `(…, T)`, an estimate a token such as `approx_kl` or `kl_divergence`; outside the mask anything.
        mask: bool `(…, T)`: the tokens of the completion.
        coefficient: ≥ 0.

    Returns:
        `(…, T)` float32 (float64 for float64 KL), without gradient, 0 outside the mask. A row without a token has no
        place for its score.

    Raises:
        ValueError: Shapes do not fit, the mask is not bool, or the coefficient is negative.
    """
    check_mask(mask, "kl", kl)
    check_same_shape("scores", scores, "kl[..., 0]", kl[..., 0])
    if not coefficient >= 0:
        raise ValueError(f"coefficient is {coefficient!r}; it must be 0 or greater")
    penalty = -coefficient * promote(kl).masked_fill(~mask, 0.0)
    steps = torch.arange(mask.shape[-1], device=mask.device)
    last = steps == torch.where(mask, steps, -1).amax(-1, keepdim=True)
    return torch.where(last, penalty + scores.unsqueeze(-1).to(penalty.dtype), penalty)
