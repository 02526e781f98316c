"""What a term of the objective is asked about: the states of one forward pass, and what was decided there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from torch import Tensor

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import PolicyConfig, StateScores
from dllm_rl.task import UnmaskBatch
from llm_rl.core.metrics import Number


class ScoredStates(NamedTuple):
    """N states with the policy at them.

    Attributes:
        problems: The problems.
        responses: int64 `(N, R)`, the states.
        of: int64 `(N,)`, the problem of each.
        definite: bool `(N, R)`, S1: the open judged positions whose token follows from the state.
        scores: The policy at the states.
        policy: Its temperatures.
    """

    problems: UnmaskBatch
    responses: Tensor
    of: Tensor
    definite: Tensor
    scores: StateScores
    policy: PolicyConfig

    @property
    def masked(self) -> Tensor:
        """bool `(N, R)`, the open positions."""
        return self.scores.row_of >= 0

    @property
    def tail(self) -> Tensor:
        """bool `(N, R)`, S2: the open positions that are not judged."""
        return self.problems.open_tail(self.responses, self.of)

    @property
    def answers(self) -> Tensor:
        """int64 `(N, R)`, y* where it is known."""
        return self.problems.answers_to(self.responses, self.of)


@dataclass(frozen=True, eq=False)
class VisitedStates:
    """N scored states of a roll-out and the A decisions that were taken there.

    Attributes:
        states: The states.
        chosen: int64 `(N,)`, their numbers among those of the roll-out.
        state: int64 `(A,)`, the state of each decision.
        at: int64 `(A,)` each, the decisions' trajectories and steps: their places in tables `(T, K)`.
        logprobs: `(A,)`, log π(a|s) now; with a gradient where a term asks for it (`Term.of_decisions`).
        old_logprobs: `(A,)`, that when acting.
        weights: `(A,)`, what a step counts in J (`dllm_rl.training.update.step_weights`).
        incoming: `(A,)`, sg[R_{k−1}], the ratio of the decision that led to the state (`incoming_ratio`).
        has_future: bool `(A,)`, false for the last decision of a full trajectory, after which nothing is of value.
    """

    states: ScoredStates
    chosen: Tensor
    state: Tensor
    at: tuple[Tensor, Tensor]
    logprobs: Tensor
    old_logprobs: Tensor
    weights: Tensor
    incoming: Tensor
    has_future: Tensor

    def visits(self, *, by_ratios: bool = False) -> Tensor:
        """`(N,)`, what the states count in J: the sum over the decisions taken there, times `incoming` if asked for."""
        weights = self.weights * self.incoming if by_ratios else self.weights
        return weights.new_zeros(len(self.states.responses)).index_add(0, self.state, weights)


class TermValue(NamedTuple):
    """What a term adds to J at the states of one pass.

    Attributes:
        value: Scalar to be maximized, the term's weight included.
        shares: Metrics by name, each as what counts and of how much.
    """

    value: Tensor
    shares: Mapping[str, tuple[Number, Number]] = {}


class Term(Protocol):
    """A term of J.

    Attributes:
        name: It is logged as "objective_NAME".
        at_rl_rate: Whether its learning rate is `rl_learning_rate`; else it is that of the second term.
        of_decisions: Whether it asks for the gradient of log π of the decisions that were taken.
    """

    name: ClassVar[str]
    at_rl_rate: ClassVar[bool] = False
    of_decisions: ClassVar[bool] = False

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """Look at a roll-out; returns the function that values the states of each pass over it."""
