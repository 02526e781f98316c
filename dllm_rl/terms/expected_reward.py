"""The second term of J: the expected reward f(s) of the next action, at each state that was visited.

    1/G Σ_j Σ_{k≤K−1} sg[R_{k−1}] f(s_k),        R_{−1} = 1

With R = 1 it is the derivative of the expectation over the immediate action in closed form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import NEG_INF
from dllm_rl.reward import log_expected_reward_of
from dllm_rl.task import check_lam
from dllm_rl.terms.states import ScoredStates, Term, TermValue, VisitedStates
from llm_rl.core._checks import check_choice, check_rate
from llm_rl.core._options import option

FForm = Literal["linear", "log"]


@dataclass
class ExpectedRewardConfig:
    """Parameters of the expected reward; the defaults are those of docs/sources.md."""

    f_weight: float = option(1.0, "Weight of the expected-reward term f.")
    lam: float = option(0.5, "lambda: reward of a position that is not judged.")
    f_form: FForm = option(
        "linear", "The second term is of f itself (linear), or of its logarithm, 0 where f is 0 (log)."
    )

    def __post_init__(self) -> None:
        check_lam(self.lam)
        check_rate("f_weight", self.f_weight)
        check_choice("f_form", self.f_form, FForm)


def log_f_of(states: ScoredStates, lam: float) -> Tensor:
    """log f(s) `(N,)` of the states (`dllm_rl.reward`); -inf, without gradient, where S1 and S2 are empty."""
    return log_expected_reward_of(
        states.scores,
        definite=states.definite,
        tail=states.tail,
        scored=states.problems.scored[states.of],
        answers=states.answers,
        policy=states.policy,
        lam=lam,
    )


def f_term(log_f: Tensor, form: FForm) -> Tensor:
    """What the second term adds up, `(N,)`, from log f(s) `(N,)`: f, or its logarithm and 0 where f is 0."""
    return log_f.exp() if form == "linear" else torch.where(log_f > NEG_INF, log_f, 0.0)


def incoming_ratio(ratio: Tensor) -> Tensor:
    """sg[R_{k−1}] `(T, K)` of ratios R_k `(T, K)`: the ratio of the decision that led to s_k, 1 at the first state."""
    return torch.cat([torch.ones_like(ratio[:, :1]), ratio[:, :-1]], dim=1).detach()


class ExpectedReward(Term):
    """f, or log f, of each visited state, by the ratios that led there."""

    name: ClassVar[str] = "f"

    def __init__(self, config: ExpectedRewardConfig) -> None:
        self.config = config

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """See `Term.over`."""

        def value(visited: VisitedStates) -> TermValue:
            # Weighed by the ratio of the decision that led there: the policy of now takes it so much more often.
            of_f = f_term(log_f_of(visited.states, self.config.lam), self.config.f_form)  # (N,)
            return TermValue((of_f * visited.visits(by_ratios=True)).sum() * self.config.f_weight)

        return value
