"""Both terms of J in closed form: at each visited state, the expected reward and the expected value of what follows.

A wrong token at a judged position ends the trajectory and everything after it is worth 0; a right one leads to one
known state. So the first term's sum over actions can be taken exactly: with V(s) the discounted sum of f from s on, C
the open judged positions and O the open tail,

    Σ_a π(a|s) ∇log π(a|s) Q(s,a) = ∇ F(s),
    F(s) = Σ_{ℓ∈C} π(ℓ|s) π(y*_ℓ|ℓ,s) sg V(s∪ℓ) + Σ_{ℓ∈O} π(ℓ|s) sg V(s∪ℓ)

and J's gradient at a visited state is that of E(s) = F(s) + f(s). Nothing but the states is sampled: there is no
advantage, no ratio of an action, and a group may have one member. The return of a decision starts with f of the state
that it leads to, undiscounted (`return_after_action`), so γ is inside V and not before it. Values are those of
`dllm_rl.terms.values`. What is written in the tail is taken to change nothing that follows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import NEG_INF, PolicyConfig, StateScores, token_logprobs_at
from dllm_rl.terms.expected_reward import log_f_of
from dllm_rl.terms.states import ScoredStates, Term, TermValue, VisitedStates
from dllm_rl.terms.values import Values
from llm_rl.core._checks import check_choice

Objective = Literal["sampled", "closed"]


@dataclass
class ClosedFormConfig:
    """Whether the first term is in closed form; it is sampled by default, as in docs/sources.md."""

    objective: Objective = field(
        default="sampled",
        metadata={"help": "The first term is that of the sampled actions, or sums over all of a state's (closed)."},
    )

    def __post_init__(self) -> None:
        check_choice("objective", self.objective, Objective)


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


def log_expectation(log_value: Tensor, log_f: Tensor, weights: tuple[float, float]) -> Tensor:
    """w log(E(s) / w) `(N,)`, with E(s) = policy_weight · F(s) + f_weight · f(s); w is the larger weight.

    So weights of 1 give log E(s), and one weight alone gives it times the logarithm of its part.

    Args:
        log_value: log F(s) `(N,)`.
        log_f: log f(s) `(N,)`.
        weights: policy_weight and f_weight, 0 or larger, one of them above 0.
    """
    largest = max(weights)
    shares = [weight / largest for weight in weights]
    parts = [log + math.log(share) for log, share in zip((log_value, log_f), shares, strict=True) if share > 0]
    some = torch.stack(parts).amax(0) > NEG_INF
    total = torch.stack([torch.where(some, part, 0.0) for part in parts]).logsumexp(0)
    return largest * torch.where(some, total, 0.0)


class ExpectedValue(Term):
    """F(s), the expected value of what follows: the first term in closed form."""

    name: ClassVar[str] = "policy"
    at_rl_rate: ClassVar[bool] = True

    def __init__(self, weight: float, values: Values) -> None:
        self.weight, self.values = weight, values

    def log_value(self, states: ScoredStates) -> Tensor:
        """log F(s) `(N,)`."""
        return log_expected_value_of(
            states.scores, tail=states.tail, answers=states.answers, values=self.values.at(states), policy=states.policy
        )

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """See `Term.over`."""

        def value(visited: VisitedStates) -> TermValue:
            expected = self.weight * self.log_value(visited.states).exp()  # (N,)
            return TermValue((expected * visited.visits(by_ratios=True)).sum())

        return value


class LogExpectation(ExpectedValue):
    """Both terms in one, in logarithms: log(policy_weight · F(s) + f_weight · f(s)), as `log_expectation` scales it."""

    name: ClassVar[str] = "f"
    at_rl_rate: ClassVar[bool] = False

    def __init__(self, weight: float, values: Values, *, f_weight: float, lam: float) -> None:
        super().__init__(weight, values)
        self.f_weight, self.lam = f_weight, lam

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """See `Term.over`."""

        def value(visited: VisitedStates) -> TermValue:
            states = visited.states
            weights = (self.weight, self.f_weight)
            log_f = log_f_of(states, self.lam)  # (N,)
            expectation = log_expectation(self.log_value(states), log_f, weights)  # (N,)
            return TermValue((expectation * visited.visits(by_ratios=True)).sum())

        return value
