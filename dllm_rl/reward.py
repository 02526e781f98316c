"""The expected reward f(s) of the next action, in closed form and in logarithms."""

import torch
from torch import Tensor

from dllm_rl.policy import NEG_INF, PolicyConfig, StateScores, token_logprobs_in


def log_expected_reward(
    position_logprobs: Tensor, answer_logprobs: Tensor, definite: Tensor, tail: Tensor, scored: Tensor, lam: float
) -> Tensor:
    """log f(s), with f(s) = λ Σ_{ℓ∈S2} π(ℓ|s) + Σ_{ℓ∈S1} π(ℓ|s) π(y*_ℓ|ℓ,s).

    Where a position of S2 is scored its term is λ π(ℓ|s) π(y*_ℓ|ℓ,s), as λ is then paid for the answer's token
    alone. f is the expectation of the environment's reward over the policy's immediate action.

    Args:
        position_logprobs: fp32 `(N, R)`, log π(ℓ|s).
        answer_logprobs: fp32 `(N, R)`, log π(y*_ℓ|ℓ,s) on S1, and on S2 where it is scored; anything elsewhere.
        definite: bool `(N, R)`, S1: open judged positions whose token follows from the state.
        tail: bool `(N, R)`, S2: open positions that are not judged.
        scored: bool `(N, R)`, where λ is paid for y* alone.
        lam: λ.

    Returns:
        fp32 `(N,)`; -inf, without gradient, for a state with no term.
    """
    # The terms, in logarithms as docs/sources.md asks: those of S1, and of S2 times λ.
    counted = definite | (tail & scored)
    logprobs = position_logprobs + answer_logprobs.masked_fill(~counted, 0.0)
    terms = torch.where(definite, logprobs, NEG_INF)
    if lam > 0:
        log_lam = torch.full((), lam, dtype=terms.dtype, device=terms.device).log()
        terms = torch.where(tail, logprobs + log_lam, terms)
        some = (definite | tail).any(dim=1)
    else:
        some = definite.any(dim=1)
    # Where there is no term f is 0; taken out before the sum, since behind it the gradient would be NaN.
    safe = torch.where(some[:, None], terms, 0.0)
    return torch.where(some, safe.logsumexp(dim=1), NEG_INF)


def log_expected_reward_of(
    scores: StateScores,
    *,
    definite: Tensor,
    tail: Tensor,
    scored: Tensor,
    answers: Tensor,
    policy: PolicyConfig,
    lam: float,
) -> Tensor:
    """log f(s) `(N,)` of N scored states, with the arguments of `log_expected_reward`.

    In place of log-probabilities it takes the answers, int64 `(N, R)`, y* on S1 and where S2 is scored.
    """
    known = answers.where(definite | (tail & scored), 0)  # of others any token will do
    answer_logprobs = token_logprobs_in(scores, scores.row_of, known, policy.token_temperature)  # (N, R)
    return log_expected_reward(scores.position_logprobs, answer_logprobs, definite, tail, scored, lam)
