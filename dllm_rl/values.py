"""V(s∪ℓ), what a state that follows is worth: the discounted sum of f from there on, 0 from the first error on.

The first term in closed form (`dllm_rl.closed_form`) weighs each right decision by it. A value is a constant of the
objective: no gradient passes through.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dllm_rl.baseline import MovingMeans
from dllm_rl.closed_form import log_expected_value_of
from dllm_rl.objective import log_expected_reward_of
from dllm_rl.policy import NEG_INF, PolicyConfig, StateScores, score_states
from dllm_rl.rollouts import Rollout
from dllm_rl.task import UnmaskBatch
from dllm_rl.trajectories import micro_batches
from llm_rl.training.modes import evaluation_mode


class ScoredStates(NamedTuple):
    """N states with the policy at them, and what it takes to score others.

    Attributes:
        model: The policy's model.
        problems: The problems.
        responses: int64 `(N, R)`, the states.
        of: int64 `(N,)`, the problem of each.
        scores: The policy at the states.
        policy: Temperatures.
        max_tokens: Largest number of tokens in one forward pass.
        max_masked: Largest number of masked positions in one forward pass.
    """

    model: nn.Module
    problems: UnmaskBatch
    responses: Tensor
    of: Tensor
    scores: StateScores
    policy: PolicyConfig
    max_tokens: int = 65536
    max_masked: int | None = None


class Values(ABC):
    """How states that follow are valued.

    Attributes:
        reads_hidden: Whether the states must have been scored with their hidden states.
    """

    reads_hidden: ClassVar[bool] = False

    @abstractmethod
    def at(self, states: ScoredStates) -> Tensor:
        """V(s∪ℓ), fp32 `(N, R)` without gradient, 0 or larger at every open position ℓ; anything elsewhere.

        s∪ℓ is the state with the right token at ℓ.
        """

    def learn(  # noqa: B027  (most values learn nothing from single states)
        self, states: ScoredStates, rows: Tensor, positions: Tensor, returns: Tensor, weights: Tensor
    ) -> None:
        """Be told the returns of A visited states that followed; nothing is done with them where nothing is learned.

        Args:
            states: The states before.
            rows: int64 `(A,)`, the state before each.
            positions: int64 `(A,)`, the position ℓ that was filled.
            returns: `(A,)`, the return from s∪ℓ on (`returns_until_error`).
            weights: `(A,)`, what each counts.
        """


def returns_until_error(rewards: Tensor, wrong: Tensor, gamma: float) -> Tensor:
    """G_k `(T, K)` = f(s_k) + γ G_{k+1}, where G_{k+1} is 0 after a wrong decision.

    It estimates V(s_k) without bias also where trajectories go on after an error, since what a policy does from a state
    on depends on the state alone.

    Args:
        rewards: `(T, K)`, f at each visited state, 0 after the end.
        wrong: bool `(T, K)`, whether decision k was wrong.
        gamma: Discount factor.
    """
    returns = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[:, 0])
    for step in reversed(range(rewards.shape[1])):
        following = rewards[:, step] + gamma * following.masked_fill(wrong[:, step], 0.0)
        returns[:, step] = following
    return returns


def totals_by_masked(record: Rollout, gamma: float, size: int) -> Tensor:
    """Sum and number of `returns_until_error` at the visited states with 0, 1, … masked positions, fp64 `(2, size)`.

    Args:
        record: The roll-out; only trajectories that are alive count.
        gamma: Discount factor.
        size: Largest number of masked positions, plus one.
    """
    live = record.live
    values = returns_until_error(record.visited_rewards, record.wrong, gamma)[live].double()
    totals = torch.zeros(2, size, dtype=torch.float64, device=values.device)
    masked = record.masked[record.state_of[live]]
    return totals.index_add(1, masked, torch.stack([values, torch.ones_like(values)]))


class CellValues(MovingMeans, Values):
    """The mean return of the trajectories alive where as many positions are masked, over the roll-outs so far.

    V is then the same for all actions of a state, so F(s) is V times the probability that the next decision is right.
    Numbers of masked positions that no trajectory has met (with several tokens a step there are some) lie on a straight
    line between their neighbors, with 0 where nothing is masked; before the first `update` V is 0.

    Args:
        decay: Share of its value that a mean keeps at an update, in [0, 1).
        length: R, tokens of a response.
    """

    def __init__(self, decay: float, length: int) -> None:
        super().__init__(decay, length + 1)

    def by_masked(self) -> Tensor:
        """V of a state by its number of masked positions, fp64 `(R + 1,)`, without gaps."""
        values = self.values.numpy()
        seen = np.flatnonzero(~np.isnan(values))
        known = np.concatenate([[0], seen[seen > 0]])
        return torch.from_numpy(np.interp(np.arange(len(values)), known, [0.0, *values[known[1:]]]))

    def at(self, states: ScoredStates) -> Tensor:
        """V by the number of masked positions left after the decision; see `Values.at`."""
        scores = states.scores
        left = (scores.row_of >= 0).sum(1) - 1
        values = self.by_masked().to(left.device, scores.position_logprobs.dtype)
        return values[left, None].expand(scores.row_of.shape)


class LookAhead(CellValues):
    """The values one step ahead, V(s') = f(s') + γ F(s'), with the mean returns of `CellValues` inside F.

    The states that follow are scored in a forward pass without gradient, those of the likeliest positions alone; the
    others take the mean of the scored ones. An open position of the tail is filled with its answer, or with the
    likeliest token where none is known.

    Args:
        decay: As `CellValues` takes it.
        length: R, tokens of a response.
        successors: Following states of a state that are scored.
        gamma: Discount factor.
        lam: λ.
    """

    def __init__(self, decay: float, length: int, successors: int, gamma: float, lam: float) -> None:
        super().__init__(decay, length)
        self.successors, self.gamma, self.lam = successors, gamma, lam

    @torch.no_grad()
    def at(self, states: ScoredStates) -> Tensor:
        """V of the states that follow the likeliest positions, their mean at the others; see `Values.at`."""
        scores, problems = states.scores, states.problems

        # The likeliest positions of each state, and the tokens written there.
        count = min(self.successors, scores.row_of.shape[1])
        logprobs, ranked = scores.position_logprobs.topk(count, dim=1)  # (N, count)
        rows, ranks = (logprobs > NEG_INF).nonzero(as_tuple=True)  # (B,) each
        positions = ranked[rows, ranks]
        answers = problems.answers[states.of[rows], positions]
        likeliest = scores.logits[scores.row_of[rows, positions]].argmax(1)
        following = states.responses[rows]
        following[torch.arange(len(rows)), positions] = torch.where(answers == problems.mask_id, likeliest, answers)

        # Each distinct state that follows is scored once.
        of = states.of[rows]
        distinct, inverse = torch.cat([of[:, None], following], 1).unique(dim=0, return_inverse=True)
        values = self._of(distinct[:, 1:], distinct[:, 0], states)[inverse]  # (B,)

        total = values.new_zeros(len(scores.row_of)).index_add(0, rows, values)
        found = (total / rows.bincount(minlength=len(total)))[:, None].repeat(1, scores.row_of.shape[1])
        found[rows, positions] = values
        return found

    def _of(self, responses: Tensor, of: Tensor, states: ScoredStates) -> Tensor:
        """V `(B,)` of states int64 `(B, R)` of problems int64 `(B,)`; 0 where nothing is masked."""
        problems, policy = states.problems, states.policy
        masked = (responses == problems.mask_id).sum(1)
        values = states.scores.position_logprobs.new_zeros(len(responses))
        unfinished = masked.nonzero().squeeze(1)
        with evaluation_mode(states.model):
            for first, last in micro_batches(masked[unfinished], problems.length, states.max_tokens, states.max_masked):
                some = unfinished[first:last]
                inputs = (*problems.prompts_of(of[some]), responses[some], problems.mask_id, policy)
                part = states._replace(
                    responses=responses[some], of=of[some], scores=score_states(states.model, *inputs)
                )
                tail, answers = problems.open_tail(part.responses, part.of), problems.answers[part.of]
                log_f = log_expected_reward_of(
                    part.scores,
                    definite=problems.definite(part.responses, part.of),
                    tail=tail,
                    scored=problems.scored[part.of],
                    answers=answers,
                    policy=policy,
                    lam=self.lam,
                )
                log_value = log_expected_value_of(
                    part.scores, tail=tail, answers=answers, values=super().at(part), policy=policy
                )
                values[some] = log_f.exp() + self.gamma * log_value.exp()
        return values
