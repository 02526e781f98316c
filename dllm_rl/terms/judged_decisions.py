"""The expected reward of a whole decision, by decisions that are drawn and judged at each state that was visited.

    F(s) = E_{a ~ π(·|s)} [r(s, a)]

with a the k positions and tokens of a decision and r = 1 where what is written can still be completed, or the source's
own rewards of the positions, as far as none before them was wrong, of which F is f at k = 1. F is for whole decisions
what f is for the first of their positions, and completable states need no answer to compare with. One forward pass
gives the distribution of all decisions and a judge costs next to nothing, so D of them are drawn and judged:

    ∇ log F ≈ Σ_d (r_d / Σ r − 1/D) ∇ log π(a_d|s)        ∇ F ≈ Σ_d (r_d − mean r) / (D − 1) ∇ log π(a_d|s)

The second is unbiased. The first is self-normalized, 0 where all of the D earn the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dllm_rl.decoding.decisions import draw_decisions, right_decisions
from dllm_rl.decoding.noise import StateNoise
from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import action_logprobs
from dllm_rl.task import unmask_rewards
from dllm_rl.terms.expected_reward import FForm
from dllm_rl.terms.states import ScoredStates, Term, TermValue, VisitedStates
from llm_rl.core._checks import check_choice, check_count, check_rate
from llm_rl.core._options import option

DecisionReward = Literal["completable", "definite"]
JUDGED = 0
"""The use of `StateNoise` for the decisions that are drawn."""


@dataclass
class JudgedDecisionsConfig:
    """Parameters of judged decisions, which are off by default."""

    judged_weight: float = option(0.0, "Weight of the expected reward of whole decisions.")
    judged_draws: int = option(32, "D: decisions that are drawn and checked at each state.")
    judged_reward: DecisionReward = option(
        "completable",
        "What a decision earns: 1 if a completion is left (completable), or what its positions do by S1 "
        "and lambda, up to the first wrong one (definite).",
    )
    judged_form: FForm = option("log", "The term is of the expectation itself (linear), or of its logarithm (log).")

    def __post_init__(self) -> None:
        check_choice("judged_form", self.judged_form, FForm)
        check_choice("judged_reward", self.judged_reward, DecisionReward)
        check_rate("judged_weight", self.judged_weight)
        check_count("judged_draws", self.judged_draws, ": they are compared", least=2)


def decision_weights(rewards: Tensor, form: FForm) -> Tensor:
    """What ∇ log π(a_d|s) is weighed by, float64 `(N, D)`, from what the D decisions earn, `(N, D)`."""
    rewards = rewards.double()
    draws, mean = rewards.shape[1], rewards.mean(1, keepdim=True)
    if form == "linear":
        return (rewards - mean) / (draws - 1)
    return torch.where(mean > 0, rewards / (draws * mean.clamp_min(1e-9)) - 1 / draws, 0.0)


def definite_rewards(states: ScoredStates, positions: Tensor, tokens: Tensor, lam: float) -> Tensor:
    """What the positions of decisions earn (`unmask_rewards`), nothing from the first on that leaves no completion.

    Args:
        states: N states.
        positions: int64 `(N, D, k)` in the order of choice, -1 for none, as `draw_decisions` gives them.
        tokens: int64 `(N, D, k)`.
        lam: λ.

    Returns:
        fp32 `(N, D)`.
    """
    problems, of = states.problems, states.of[:, None, None]
    chosen, row = positions >= 0, torch.arange(len(positions), device=positions.device)[:, None, None]
    at = positions.clamp_min(0)
    earned = unmask_rewards(
        problems.judged[of, at],
        states.definite[row, at],
        problems.scored[of, at],
        states.answers[row, at] == tokens,
        lam,
    )
    # Each beginning of a decision is judged: the first wrong position takes what it and all behind it earn.
    until = [
        right_decisions(problems, states.responses, states.of, positions[..., :rank], tokens[..., :rank])
        for rank in range(1, positions.shape[2] + 1)
    ]
    return (earned * chosen * torch.stack(until, -1)).sum(-1)


class JudgedDecisions(Term):
    """F, or log F, of each visited state; logs `decisions_right`, the share of the drawn ones that are right.

    Args:
        config: Parameters of the term.
        noise: Where draws come from.
        lam: λ, what a position that is not judged earns with `judged_reward="definite"`.
    """

    name: ClassVar[str] = "judged"
    at_rl_rate: ClassVar[bool] = True

    def __init__(self, config: JudgedDecisionsConfig, noise: StateNoise, *, lam: float) -> None:
        self.config, self.noise, self.lam = config, noise, lam

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """Decisions fill as many positions as those of the roll-out; see `Term.over`."""
        config, device = self.config, rollout.responses.device
        shape = (config.judged_draws, rollout.positions.shape[2], 2)
        uniforms = self.noise.of_states(rollout.problem_of, JUDGED, shape)  # (S, D, k, 2)

        def value(visited: VisitedStates) -> TermValue:
            states = visited.states
            every = torch.arange(len(states.responses), device=device)
            positions, tokens = draw_decisions(states.scores, every, uniforms[visited.chosen], states.policy)
            right = right_decisions(states.problems, states.responses, states.of, positions, tokens)  # (N, D)
            rewards = right
            if config.judged_reward == "definite":
                rewards = definite_rewards(states, positions, tokens, self.lam)
            state_of = every.repeat_interleave(right.shape[1])
            logprobs = action_logprobs(
                states.scores, state_of, positions.flatten(0, 1), tokens.flatten(0, 1), states.policy
            ).view(right.shape)

            # The value is F or its logarithm, the gradient that of the drawn decisions.
            weights = decision_weights(rewards, config.judged_form).to(logprobs.dtype)
            mean = rewards.to(logprobs.dtype).mean(1)
            level = mean if config.judged_form == "linear" else torch.where(mean > 0, mean.clamp_min(1e-9).log(), 0.0)
            drawn = (weights * logprobs).sum(1)
            total = ((level + drawn - drawn.detach()) * visited.visits()).sum() * config.judged_weight
            return TermValue(total, {"decisions_right": (right.sum(), right.numel())})

        return value
