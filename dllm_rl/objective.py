"""The objective of seed 001: a clipped policy-gradient term for the order, and the exact expected reward f.

    J = 1/G Σ_j Σ_{k≤K−2} min(R_k A_k, clip(R_k) A_k) + 1/G Σ_j Σ_{k≤K−1} sg[R_{k−1}] f(s_k),        R_{−1} = 1

to be maximized, averaged over puzzles. With R = 1 the second sum is the derivative of the expectation over the
immediate action in closed form, and the first is the score-function term for everything that follows.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dllm_rl.policy import NEG_INF, PolicyConfig, StateScores, token_logprobs_at
from llm_rl.core.advantages import Baseline, Scale, group_relative_advantage, return_after_action


@dataclass(frozen=True)
class ObjectiveConfig:
    """Parameters of the objective; the defaults are those of seed 001 where it gives one.

    Attributes:
        lam: λ, the reward of choosing a position outside the map.
        gamma: γ, the discount factor.
        clip_low: The ratio is clipped below at 1 - clip_low.
        clip_high: The ratio is clipped above at 1 + clip_high.
        baseline: "mean" of the group (source) or "leave_one_out".
        scale: "std" divides advantages by the group's standard deviation (source), "none" does not.
        std_eps: Added to that standard deviation.
        reduction: "sum" over steps (source), or "mean", which makes the step size independent of K.
        rl_weight: Weight of the first term.
        sft_weight: Weight of the second term.
    """

    lam: float = 0.5
    gamma: float = 0.95
    clip_low: float = 0.2
    clip_high: float = 0.2
    baseline: Baseline = "mean"
    scale: Scale = "std"
    std_eps: float = 0.0
    reduction: Literal["sum", "mean"] = "sum"
    rl_weight: float = 1.0
    sft_weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.lam >= 0:
            raise ValueError(f"lam must be 0 or larger, got {self.lam}")
        if self.reduction not in ("sum", "mean"):
            raise ValueError(f"reduction {self.reduction!r} is unknown; use 'sum' or 'mean'")


def log_expected_reward(
    position_logprobs: Tensor, solution_logprobs: Tensor, forced: Tensor, tail: Tensor, lam: float
) -> Tensor:
    """log f(s), with f(s) = λ Σ_{ℓ∈S2} π(ℓ|s) + Σ_{ℓ∈S1} π(ℓ|s) π(y*_ℓ|ℓ,s).

    Seed 001 asks for a logsumexp over the logarithms of the terms. f is the expectation of the environment's reward
    over the policy's immediate action.

    Args:
        position_logprobs: fp32 `(N, R)`, log π(ℓ|s).
        solution_logprobs: fp32 `(N, R)`, log π(y*_ℓ|ℓ,s) on S1, anything elsewhere.
        forced: bool `(N, R)`, S1: masked cells that are logically forced.
        tail: bool `(N, R)`, S2: masked positions outside the map.
        lam: λ.

    Returns:
        fp32 `(N,)`; -inf, without gradient, for a state with no term.
    """
    terms = torch.where(forced, position_logprobs + solution_logprobs.masked_fill(~forced, 0.0), NEG_INF)
    if lam > 0:
        log_lam = torch.tensor(lam, dtype=terms.dtype, device=terms.device).log()
        terms = torch.where(tail, position_logprobs + log_lam, terms)
        some = (forced | tail).any(dim=1)
    else:
        some = forced.any(dim=1)
    safe = torch.where(some[:, None], terms, 0.0)
    return torch.where(some, safe.logsumexp(dim=1), NEG_INF)


def expected_reward(
    scores: StateScores, *, forced: Tensor, tail: Tensor, solution_ids: Tensor, policy: PolicyConfig, lam: float
) -> Tensor:
    """f(s) `(N,)` of scored states; 0, without gradient, where S1 and S2 are empty.

    Args:
        scores: The policy at N states.
        forced: bool `(N, R)`, S1.
        tail: bool `(N, R)`, S2.
        solution_ids: int64 `(N, R)`, y* at the cells.
        policy: Temperatures.
        lam: λ.
    """
    states, positions = forced.nonzero(as_tuple=True)
    logprobs = token_logprobs_at(scores, states, positions, solution_ids[states, positions], policy.token_temperature)
    solution_logprobs = torch.zeros_like(scores.position_logprobs).masked_scatter(forced, logprobs)
    return log_expected_reward(scores.position_logprobs, solution_logprobs, forced, tail, lam).exp()


def rollout_advantages(visited_rewards: Tensor, group_size: int, config: ObjectiveConfig) -> Tensor:
    """Advantages A_k `(T, K)` of T = Q·G trajectories, from f at each visited state `(T, K)`, 0 after the end.

    The action at step k is credited with the discounted rewards of the states that follow it. Trajectories that ended
    in an error take part in the group's statistics with their zeros.
    """
    returns = return_after_action(visited_rewards, config.gamma)
    grouped = returns.reshape(-1, group_size, returns.shape[-1])
    advantages = group_relative_advantage(grouped, baseline=config.baseline, scale=config.scale, std_eps=config.std_eps)
    return advantages.reshape(returns.shape)


def step_weights(live: Tensor, decisions: Tensor, reduction: str) -> Tensor:
    """Weight `(T, K)` of each live step in J: 1/T, and with `reduction="mean"` also 1/K of its puzzle; 0 elsewhere.

    The mean over the G trajectories of a puzzle and then over Q puzzles is 1/T with T = Q·G.

    Args:
        live: bool `(T, K)`, where a decision was taken.
        decisions: int64 `(T,)`, K of each trajectory's puzzle.
        reduction: "sum" or "mean".
    """
    weights = live.float() / len(live)
    return weights / decisions[:, None] if reduction == "mean" else weights


def incoming_ratio(ratio: Tensor) -> Tensor:
    """sg[R_{k−1}] `(T, K)` of ratios R_k `(T, K)`: the ratio of the decision that led to s_k, 1 at the first state."""
    return torch.cat([torch.ones_like(ratio[:, :1]), ratio[:, :-1]], dim=1).detach()
