"""The first term of J: the clipped policy gradient for what follows a decision.

    1/G Σ_j Σ_{k≤K−2} min(R_k A_k, clip(R_k) A_k)

with R_k the ratio of a decision, position and token together, and A_k its return compared with that of its group.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.terms.states import Term, TermValue, VisitedStates
from llm_rl.core._checks import check_choice, check_rate
from llm_rl.core._options import option
from llm_rl.core.advantages import Baseline, Scale, group_relative_advantage, return_after_action
from llm_rl.core.surrogate import ClipConfig, clipped_surrogate


@dataclass
class PolicyGradientConfig(ClipConfig):
    """Parameters of the policy gradient; the defaults are those of docs/sources.md."""

    policy_weight: float = option(1.0, "Weight of the clipped policy-gradient term.")
    gamma: float = option(0.95, "Discount factor.")
    advantage_baseline: Baseline = option("mean", "Returns are compared with the group's mean, or leave_one_out.")
    advantage_scale: Scale = option("std", "Advantages are divided by the group's std, or not (none).")

    def __post_init__(self) -> None:
        ClipConfig.__post_init__(self)
        check_rate("policy_weight", self.policy_weight)
        check_choice("advantage_baseline", self.advantage_baseline, Baseline)
        check_choice("advantage_scale", self.advantage_scale, Scale)


def rollout_advantages(visited_rewards: Tensor, num_generations: int, config: PolicyGradientConfig) -> Tensor:
    """Advantages A_k `(T, K)` of T = Q·G trajectories, from f at each visited state `(T, K)`, 0 after the end.

    The action at step k is credited with the discounted rewards of the states that follow it. Trajectories that ended
    in an error take part in the group's statistics with their zeros.

    Args:
        visited_rewards: `(T, K)`, f at each visited state, 0 after the end.
        num_generations: G, trajectories for each problem.
        config: Discount, baseline and scale.
    """
    returns = return_after_action(visited_rewards, config.gamma)
    steps = returns.shape[-1]
    advantages = group_relative_advantage(
        returns.reshape(-1, num_generations, steps), baseline=config.advantage_baseline, scale=config.advantage_scale
    )
    return advantages.reshape(returns.shape)


class PolicyGradient(Term):
    """The clipped surrogate of the decisions that have a future; logs `clip_frac` and `masked_frac`."""

    name: ClassVar[str] = "policy"
    at_rl_rate: ClassVar[bool] = True
    of_decisions: ClassVar[bool] = True

    def __init__(self, config: PolicyGradientConfig) -> None:
        self.config = config

    def over(self, rollout: Rollout) -> Callable[[VisitedStates], TermValue]:
        """Advantages are those of the roll-out's groups; see `Term.over`."""
        config = self.config
        advantages = rollout_advantages(rollout.visited_rewards, rollout.num_generations, config)  # (T, K)

        def value(visited: VisitedStates) -> TermValue:
            # A last decision brings nothing after it: what it earns itself is f, the second term.
            taken, counted = visited.at, visited.has_future
            surrogate = clipped_surrogate(
                visited.logprobs, visited.old_logprobs, advantages[taken], config.clip_low, config.clip_high
            )
            total = (surrogate.objective * visited.weights * counted).sum() * config.policy_weight
            clipped, number = (surrogate.clipped & counted).sum(), counted.sum()
            return TermValue(
                total, {"clip_frac": (clipped, number), "masked_frac": (len(counted) - number, len(counted))}
            )

        return value
