"""Both terms of J in closed form: at each visited state, the expected reward and the expected value of what follows.

A wrong token at a judged position ends the trajectory and everything after it is worth 0; a right one leads to one
known state. So the first term's sum over actions can be taken exactly: with V(s) the discounted sum of f from s on, C
the open judged positions and O the open tail,

    Σ_a π(a|s) ∇log π(a|s) Q(s,a) = ∇ F(s),
    F(s) = Σ_{ℓ∈C} π(ℓ|s) π(y*_ℓ|ℓ,s) sg V(s∪ℓ) + Σ_{ℓ∈O} π(ℓ|s) sg V(s∪ℓ)

and J's gradient at a visited state is that of E(s) = F(s) + f(s). Nothing but the states is sampled: there is no
advantage, no ratio of an action, and a group may have one member. The return of a decision starts with f of the state
that it leads to, undiscounted (`return_after_action`), so γ is inside V and not before it. Values are those of
`dllm_rl.values`. What is written in the tail is taken to change nothing that follows.
"""

import math

import torch
from torch import Tensor

from dllm_rl.objective import ObjectiveConfig
from dllm_rl.policy import NEG_INF, PolicyConfig, StateScores, token_logprobs_at


def log_expected_value(
    position_logprobs: Tensor, answer_logprobs: Tensor, cells: Tensor, tail: Tensor, values: Tensor
) -> Tensor:
    """log F(s), with F(s) = Σ_{ℓ∈C} π(ℓ|s) π(y*_ℓ|ℓ,s) V(s∪ℓ) + Σ_{ℓ∈O} π(ℓ|s) V(s∪ℓ).

    F is the expectation of the value of the state that the immediate action leads to, 0 after a wrong token.

    Args:
        position_logprobs: fp32 `(N, R)`, log π(ℓ|s).
        answer_logprobs: fp32 `(N, R)`, log π(y*_ℓ|ℓ,s) on C; anything elsewhere.
        cells: bool `(N, R)`, C: the open judged positions.
        tail: bool `(N, R)`, O: the open positions that are not judged.
        values: fp32 `(N, R)`, V(s∪ℓ), 0 or larger on C and O, without gradient; anything elsewhere.

    Returns:
        fp32 `(N,)`; -inf, without gradient, for a state with no value to reach.
    """
    counted = (cells | tail) & (values > 0)
    logprobs = position_logprobs + answer_logprobs.masked_fill(~cells, 0.0)
    terms = torch.where(counted, logprobs + torch.where(counted, values, 1.0).log(), NEG_INF)
    some = counted.any(dim=1)
    return torch.where(some, torch.where(some[:, None], terms, 0.0).logsumexp(dim=1), NEG_INF)


def log_expected_value_of(
    scores: StateScores, *, tail: Tensor, answers: Tensor, values: Tensor, policy: PolicyConfig
) -> Tensor:
    """log F(s) `(N,)` of scored states; -inf, without gradient, where nothing of value can follow.

    Args:
        scores: The policy at N states.
        tail: bool `(N, R)`, the open positions that are not judged.
        answers: int64 `(N, R)`, y* at judged positions.
        values: fp32 `(N, R)`, V(s∪ℓ) at open positions.
        policy: Temperatures.
    """
    cells = (scores.row_of >= 0) & ~tail
    states, positions = cells.nonzero(as_tuple=True)
    logprobs = token_logprobs_at(scores, states, positions, answers[states, positions], policy.token_temperature)
    answer_logprobs = torch.zeros_like(scores.position_logprobs).masked_scatter(cells, logprobs)
    return log_expected_value(scores.position_logprobs, answer_logprobs, cells, tail, values)


def closed_form_terms(log_value: Tensor, log_f: Tensor, config: ObjectiveConfig) -> tuple[Tensor, Tensor]:
    """What the two sums of J add up at each state, `(N,)` each, weights included.

    With `f_form="linear"` these are rl_weight · F(s) and sft_weight · f(s). In logarithms there is one term, which is
    the second: w log(E(s) / w) with E(s) = rl_weight · F(s) + sft_weight · f(s) and w the larger weight, or 0 where
    E(s) is 0. So weights of 1 give log E(s), and one weight alone gives it times the logarithm of its part.

    Args:
        log_value: log F(s) `(N,)`.
        log_f: log f(s) `(N,)`.
        config: Weights, rl_weight above 0, and form.
    """
    if config.f_form == "linear":
        return config.rl_weight * log_value.exp(), config.sft_weight * log_f.exp()
    largest = max(config.rl_weight, config.sft_weight)
    shares = (config.rl_weight / largest, config.sft_weight / largest)
    parts = [log + math.log(share) for log, share in zip((log_value, log_f), shares, strict=True) if share > 0]
    some = torch.stack(parts).amax(0) > NEG_INF
    log_expectation = torch.stack([torch.where(some, part, 0.0) for part in parts]).logsumexp(0)
    return torch.zeros_like(log_f), largest * torch.where(some, log_expectation, 0.0)
