"""Masked cross-entropy against the answer, at the states that the policy visits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import StateScores, token_logprobs_at
from dllm_rl.task import Learned
from dllm_rl.terms.states import Term, TermValue, VisitedStates, scattered
from llm_rl.core._checks import check_choice


@dataclass
class CrossEntropyConfig:
    """Parameters of the cross-entropy, which is off by default."""

    ce_weight: float = field(
        default=0.0, metadata={"help": "Weight of the masked cross-entropy against the answer at visited states."}
    )
    ce_on: Learned = field(
        default="masked", metadata={"help": "It counts all masked positions, or definite ones and the tail."}
    )

    def __post_init__(self) -> None:
        check_choice("ce_on", self.ce_on, Learned)
        if not self.ce_weight >= 0:
            raise ValueError(f"ce_weight must be 0 or larger, got {self.ce_weight}")


def answer_loglikelihood(scores: StateScores, answers: Tensor, counted: Tensor) -> Tensor:
    """Mean of log π(y*_ℓ|ℓ,s) at temperature 1 over positions of N scored states, fp32 `(N,)`; 0 where none counts.

    Args:
        scores: The policy at N states.
        answers: int64 `(N, R)`, y* where it counts.
        counted: bool `(N, R)`, the masked positions whose y* is known.
    """
    states, positions = counted.nonzero(as_tuple=True)
    logprobs = token_logprobs_at(scores, states, positions, answers[states, positions], 1.0)
    return scattered(logprobs, counted).sum(1) / counted.sum(1).clamp_min(1)


class CrossEntropy(Term):
    """The mean log-likelihood of the answer at the positions that count, at each state as often as it was visited."""

    name: ClassVar[str] = "ce"

    def __init__(self, config: CrossEntropyConfig) -> None:
        self.config = config

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """See `Term.over`."""

        def value(visited: VisitedStates) -> TermValue:
            states = visited.states
            counted = states.problems.learned(states.masked, states.of, states.definite, self.config.ce_on)  # (N, R)
            likelihood = answer_loglikelihood(states.scores, states.answers, counted)  # (N,)
            return TermValue((self.config.ce_weight * likelihood * visited.visits()).sum())

        return value
