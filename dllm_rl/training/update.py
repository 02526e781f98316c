"""The gradient of the objective over a roll-out, in micro-batches of distinct states.

Each distinct state is forwarded once, however many trajectories visit it, and a micro-batch holds no more than its
budget of tokens and of masked positions, so activations grow neither with K, G nor the number of problems. What does is
the record of the roll-out and about 45 bytes a decision here, of tables `(T, K)`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dllm_rl.decoding.noise import StateNoise
from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.decoding.trajectories import micro_batches, sums_at
from dllm_rl.policy import action_logprobs, logits_at, scores_of
from dllm_rl.terms.expected_reward import incoming_ratio
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.terms.states import ScoredStates, VisitedStates
from llm_rl.core.aggregate import loss_weights
from llm_rl.core.metrics import MetricAccumulator
from llm_rl.core.surrogate import importance_ratio

VALUE = "objective_"
Backward = Callable[[Tensor, Tensor], None]
DRAWN, DEALT = 1, 2
"""Uses of `StateNoise`, beside those of the terms: the states that are drawn, and the parts that they are dealt to."""


@dataclass(frozen=True, eq=False)
class UpdateResult:
    """What a pass over a roll-out gave.

    Attributes:
        terms: What each term with a weight adds to J, by name (`Term.name`).
        shares: Metrics of the terms by name, each as what counts and of how much.
        logprobs: fp32 `(T, K)`, log π(a|s) under the current parameters, 0 where not evaluated.
        evaluated: bool `(T, K)`, the live decisions whose state was drawn; all live ones unless states are sampled.
    """

    terms: dict[str, float]
    shares: dict[str, tuple[float, float]]
    logprobs: Tensor
    evaluated: Tensor

    @property
    def objective(self) -> float:
        """J, the sum of all terms."""
        return sum(self.terms.values())


@dataclass(frozen=True)
class MiniBatch:
    """One of the parts that the states of a roll-out are dealt out to at random, each state to one of them.

    Attributes:
        number: Which one, from 0.
        count: How many there are.
        noise: What they are dealt out by, the same for all of them.
    """

    number: int
    count: int
    noise: StateNoise

    def has(self, problem_of: Tensor) -> Tensor:
        """Which of U states of problems int64 `(U,)` are its own; all parts have as many of a problem's, up to one."""
        order = (problem_of + self.noise.of_states(problem_of, DEALT)).argsort()  # problem by problem, each shuffled
        counts = problem_of.bincount()
        before = (counts.cumsum(0) - counts)[problem_of[order]]
        place = torch.arange(len(order), device=order.device) - before  # among the problem's
        # Problems begin at parts one behind the other, from a random one on, so that parts are about as large.
        begin = self.noise.first + int(self.noise.source(DEALT).integers(self.count))
        part = torch.empty_like(order)
        part[order] = (place + problem_of[order] + begin) % self.count
        return part == self.number


def objective_pass(
    model: nn.Module,
    rollout: Rollout,
    backward: Backward,
    *,
    config: ObjectiveConfig,
    max_tokens: int = 65536,
    max_masked: int | None = None,
    noise: StateNoise | None = None,
    mini_batch: MiniBatch | None = None,
) -> UpdateResult:
    """Evaluate J over a roll-out and hand the terms of each micro-batch to `backward`.

    Args:
        model: The policy that is trained.
        rollout: A roll-out of this policy, now or some updates ago; its temperatures are used.
        backward: Called with the sum of the terms at `rl_learning_rate` in a micro-batch, and that of the others (to be
            maximized, weights included); summed over the calls they are J.
        config: The objective.
        max_tokens: Largest number of tokens in one forward pass.
        max_masked: Largest number of masked positions, i.e. rows of full-vocabulary logits, in one forward pass; None
            is no bound but `max_tokens`. With a large vocabulary it is this that bounds memory.
        noise: Where the draws of `state_fraction` and judged decisions come from; None: a key from torch's global
            generator. Ratios of decisions whose state is not drawn count as 1, as they are on a fresh roll-out alone.
        mini_batch: The part of the states to take, whose mean stands for that of all; None takes all.

    Raises:
        ValueError: A budget does not hold one state.
    """
    noise = noise or StateNoise.drawn()
    terms = config.terms(noise)
    valued = [(term, term.over(rollout)) for term in terms]
    told = MetricAccumulator()  # read once, at the end
    logprobs, evaluated = torch.zeros_like(rollout.old_logprobs), torch.zeros_like(rollout.live)  # (T, K) each
    drawn = _draw_states(rollout, config.state_fraction, noise)  # (U,)
    fraction = config.state_fraction
    if mini_batch is not None:
        drawn = drawn[mini_batch.has(rollout.problem_of[drawn])]
        fraction = fraction / mini_batch.count
    with_gradient = any(term.of_decisions for term in terms)
    for visited in visited_states(
        model, rollout, drawn, fraction, config, max_tokens, max_masked, with_gradient=with_gradient
    ):
        found = [(term, value_of(visited)) for term, value_of in valued]
        zero = visited.logprobs.new_zeros(())
        backward(*(sum((got.value for term, got in found if term.at_rl_rate is own), zero) for own in (True, False)))

        # What is told of it.
        logprobs[visited.at], evaluated[visited.at] = visited.logprobs.detach(), True
        for term, got in found:
            told.add_ratio(f"{VALUE}{term.name}", got.value, 1)
            for name, (part, whole) in got.shares.items():
                told.add_ratio(name, part, whole)
    sums = {name: (part, whole) for name, (part, whole) in told.state_dict()["ratios"].items()}
    totals = {term.name: sums.pop(f"{VALUE}{term.name}", (0.0, 0.0))[0] for term in terms}
    return UpdateResult(totals, sums, logprobs, evaluated)


def visited_states(
    model: nn.Module,
    rollout: Rollout,
    drawn: Tensor,
    fraction: float,
    config: ObjectiveConfig,
    max_tokens: int,
    max_masked: int | None,
    *,
    with_gradient: bool,
) -> Iterator[VisitedStates]:
    """The states drawn from a roll-out, int64 `(U,)`, rising, as many at a time as one pass holds.

    They come with the policy and the decisions there, whose log π has a gradient if asked for. Each was drawn with a
    probability of `fraction`, and counts as one over it. The other arguments are those of `objective_pass`.
    """
    problems = rollout.problems
    decided = _Decisions.taken_in(rollout, drawn)  # (E,)
    weights = step_weights(rollout.live, rollout.decisions, config.reduction, rollout.old_logprobs.dtype)  # (T, K)
    weights = weights / fraction
    ratio = torch.ones_like(rollout.old_logprobs)  # (T, K)
    for first, last in micro_batches(rollout.masked[drawn], problems.length, max_tokens, max_masked):
        # The policy at the states of this pass.
        chosen = drawn[first:last]
        responses, of = rollout.responses[chosen], rollout.problem_of[chosen]  # (N, R), (N,)
        masked = responses == problems.mask_id  # somewhere in each
        logits = logits_at(model, *problems.prompts_of(of), responses, masked, problems.mask_id)
        scores = scores_of(logits, masked, rollout.policy)

        # The decisions that were taken there, and their ratios.
        at, state = decided.between(first, last)  # (A,) each: places in the tables (T, K), and states of this pass
        with torch.set_grad_enabled(with_gradient and torch.is_grad_enabled()):
            logprobs = action_logprobs(scores, state, rollout.positions[at], rollout.tokens[at], rollout.policy)
        # States come in the order of their step, so that the ratio of what led here is there by now.
        ratio[at] = importance_ratio(logprobs.detach(), rollout.old_logprobs[at])
        yield VisitedStates(
            chosen=chosen,
            states=ScoredStates(problems, responses, of, rollout.definite[chosen], scores, rollout.policy),
            state=state,
            at=at,
            logprobs=logprobs,
            old_logprobs=rollout.old_logprobs[at],
            weights=weights[at],
            incoming=incoming_ratio(ratio)[at],
            has_future=at[1] < rollout.decisions[at[0]] - 1,
        )


def step_weights(live: Tensor, decisions: Tensor, reduction: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """Weight `(T, K)` of each live step in J: 1/T, and with `reduction="mean"` also 1/K of its puzzle; 0 elsewhere.

    The mean over the G trajectories of a puzzle and then over Q puzzles is 1/T with T = Q·G.

    Args:
        live: bool `(T, K)`, where a decision was taken.
        decisions: int64 `(T,)`, K of each trajectory's puzzle.
        reduction: "sum" or "mean".
        dtype: Of the weights.
    """
    weights = loss_weights(live, "seq_mean_token_sum", dtype)
    return weights / decisions[:, None] if reduction == "mean" else weights


class _Decisions(NamedTuple):
    """The E decisions that were taken in the drawn states, state by state.

    Attributes:
        trajectory, step: int64 `(E,)` each.
        slot: int64 `(E,)`, the place of the state among the drawn ones, rising.
        edges: U + 1 numbers, the decisions before those of each of the drawn states, and all.
    """

    trajectory: Tensor
    step: Tensor
    slot: Tensor
    edges: list[int]

    @classmethod
    def taken_in(cls, rollout: Rollout, drawn: Tensor) -> "_Decisions":
        """The decisions in some states, int64 `(U,)`."""
        slot_of = torch.full((len(rollout.responses),), -1, device=drawn.device)  # -1 where not drawn
        slot_of[drawn] = torch.arange(len(drawn), device=drawn.device)
        trajectory, step = (rollout.live & (slot_of[rollout.state_of] >= 0)).nonzero(as_tuple=True)
        slot, order = slot_of[rollout.state_of[trajectory, step]].sort(stable=True)
        edges = sums_at(slot, torch.ones_like(slot), len(drawn)).cumsum(0).tolist()
        return cls(trajectory[order], step[order], slot, [0, *edges])

    def between(self, first: int, last: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """The trajectories and steps of the decisions in the drawn states from `first` to `last`, and their states."""
        begin, end = self.edges[first], self.edges[last]
        return (self.trajectory[begin:end], self.step[begin:end]), self.slot[begin:end] - first


def _draw_states(rollout: Rollout, fraction: float, noise: StateNoise) -> Tensor:
    """States drawn with probability `fraction` each, int64 `(U,)` in their order."""
    if fraction == 1:
        return torch.arange(len(rollout.responses), device=rollout.responses.device)
    return (noise.of_states(rollout.problem_of, DRAWN) < fraction).nonzero().squeeze(1)
