"""Masked cross-entropy at the states that the policy visits, against the answer or what was written from there.

With guarded roll-outs the second imitates them: their end y(s) is right, and a greedy approximation of the right answer
to which the policy gives the largest probability, so that an update is a hard EM step on −max_y log p(y|s).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import StateScores, token_logprobs_in
from dllm_rl.task import Learned
from dllm_rl.terms.states import Term, TermValue, VisitedStates
from llm_rl.core._checks import check_choice, check_rate
from llm_rl.core._options import option

Target = Literal["answer", "own"]


@dataclass
class CrossEntropyConfig:
    """Parameters of the cross-entropy, which is off by default."""

    ce_weight: float = option(0.0, "Weight of the masked cross-entropy at visited states.")
    ce_on: Learned = option("masked", "It counts all masked positions, or definite ones and the tail.")

    ce_target: Target = option(
        "answer", "Against the answer, or what guarded roll-outs themselves wrote in the end (own)."
    )

    def __post_init__(self) -> None:
        check_choice("ce_on", self.ce_on, Learned)
        check_choice("ce_target", self.ce_target, Target)
        check_rate("ce_weight", self.ce_weight)


def answer_loglikelihood(scores: StateScores, answers: Tensor, counted: Tensor) -> Tensor:
    """Mean of log π(y*_ℓ|ℓ,s) at temperature 1 over positions of N scored states, fp32 `(N,)`; 0 where none counts.

    Args:
        scores: The policy at N states.
        answers: int64 `(N, R)`, y* where it counts.
        counted: bool `(N, R)`, the masked positions whose y* is known.
    """
    logprobs = token_logprobs_in(scores, scores.row_of, answers.where(counted, 0), 1.0)  # (N, R)
    return logprobs.where(counted, 0.0).sum(1) / counted.sum(1).clamp_min(1)


def own_answers(rollout: Rollout) -> Tensor:
    """What was written in the end from each of S states on, int64 `(S, R)`; all ways from a state end alike."""
    ends = rollout.problems.responses.repeat_interleave(rollout.num_generations, 0)  # (T, R)
    filled, step, rank = (rollout.positions >= 0).nonzero(as_tuple=True)
    ends[filled, rollout.positions[filled, step, rank]] = rollout.tokens[filled, step, rank]
    visitor, step = rollout.live.nonzero(as_tuple=True)
    return rollout.responses.index_copy(0, rollout.state_of[visitor, step], ends[visitor])


class CrossEntropy(Term):
    """The mean log-likelihood of the target at the positions that count, at each state as often as it was visited."""

    name: ClassVar[str] = "ce"

    def __init__(self, config: CrossEntropyConfig) -> None:
        self.config = config

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """See `Term.over`."""
        own = own_answers(rollout) if self.config.ce_target == "own" else None  # (S, R)

        def value(visited: VisitedStates) -> TermValue:
            states = visited.states
            if own is None:
                answers = states.answers  # (N, R)
                counted = states.problems.learned(states.masked, states.of, states.definite, self.config.ce_on)
            else:
                answers = own[visited.chosen]
                counted = states.masked & (answers != states.problems.mask_id)
            likelihood = answer_loglikelihood(states.scores, answers, counted)  # (N,)
            return TermValue((self.config.ce_weight * likelihood * visited.visits()).sum())

        return value
