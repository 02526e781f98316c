"""DiSPO, arXiv:2602.06462: at the states of a roll-out, fillings of what is masked, drawn from the logits at hand.

    J = 1/N Σ_s 1/G Σ_g A_g 1/|Z_g| Σ_{ℓ ∈ Z_g} log p(z_{g,ℓ} | s),    A_g = (r_g − mean r) / std r

with Z_g the positions that branch g fills at state s, from one pass, and r_g what its state then earns. In the paper
these are all that are masked, and the reward is the answer's; with `reach="pass"` they are those of the sampler's next
pass, and a program judges whether a right answer is left, as it does for judged decisions. Which positions these are
has no part in the gradient.

No code is published. Taken from the paper's text: the branches, their reward, the tokens that are updated. Ours: every
state of a roll-out is branched, each update draws from the logits of its own pass, and no other objective is added.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from dllm_rl import UnmaskTrainer
from dllm_rl.decoding.decisions import draw_decisions, right_decisions
from dllm_rl.decoding.noise import StateNoise
from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import token_logprobs_at
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.terms.states import Term, TermValue, VisitedStates
from llm_rl.core import group_relative_advantage
from llm_rl.core._options import option

Reach = Literal["all", "pass"]


@dataclass
class DispoConfig(ObjectiveConfig):
    """The objective in place of its terms."""

    reach: Reach = option("all", "What a branch fills: all that is masked, or a pass of it.")

    def terms(self, noise: StateNoise) -> list[Term]:
        """The one term."""
        return [Dispo(self, noise)]


class Dispo(Term):
    """J at each visited state; logs `branches_right`, the share of the branches that earn the reward."""

    name: ClassVar[str] = "dispo"
    at_rl_rate: ClassVar[bool] = True

    def __init__(self, config: DispoConfig, noise: StateNoise) -> None:
        self.config, self.noise = config, noise

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """See `Term.over`."""
        most = rollout.positions.shape[2] if self.config.reach == "pass" else rollout.responses.shape[1]
        uniforms = self.noise.of_states(rollout.problem_of, 0, (self.config.judged_draws, most, 2))

        def value(visited: VisitedStates) -> TermValue:
            states = visited.states
            every = torch.arange(len(states.responses), device=states.responses.device)
            drawn = draw_decisions(states.scores, every, uniforms[visited.chosen], states.policy)
            right = right_decisions(states.problems, states.responses, states.of, *drawn)  # (N, G)
            advantages = group_relative_advantage(right.double())
            positions, tokens = drawn  # (N, G, most) each
            state, branch, rank = (positions >= 0).nonzero(as_tuple=True)
            at = (positions[state, branch, rank], tokens[state, branch, rank])
            logprobs = token_logprobs_at(states.scores, state, *at, states.policy.token_temperature)
            lengths = (positions >= 0).sum(2)[state, branch]
            of_token = advantages[state, branch].to(logprobs.dtype) * logprobs / (lengths * right.shape[1])
            total = (of_token * visited.visits()[state]).sum()
            return TermValue(total, {"branches_right": (int(right.sum()), right.numel())})

        return value


class DispoTrainer(UnmaskTrainer):
    """`UnmaskTrainer` with DiSPO as its objective."""

    def __init__(self, *given: Any, reach: Reach) -> None:
        super().__init__(*given)
        self.objective = DispoConfig(**vars(self.objective), reach=reach)
