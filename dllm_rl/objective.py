"""The objective of docs/objective.md: a clipped policy-gradient term for the order, and the exact expected reward f.

    J = 1/G Σ_j Σ_{k≤K−2} min(R_k A_k, clip(R_k) A_k) + 1/G Σ_j Σ_{k≤K−1} sg[R_{k−1}] f(s_k),        R_{−1} = 1

to be maximized, averaged over puzzles. With R = 1 the second sum is the derivative of the expectation over the
immediate action in closed form, and the first is the score-function term for everything that follows. Further terms,
all off by default, are in `dllm_rl.state_terms`.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from dllm_rl.policy import NEG_INF, PolicyConfig, StateScores, token_logprobs_at
from dllm_rl.task import check_lam
from llm_rl.core.advantages import Baseline, Scale, group_relative_advantage, return_after_action
from llm_rl.core.aggregate import loss_weights

FWeight = Literal["one_step", "cumulative", "none"]
KLTarget = Literal["tokens", "actions"]
Reduction = Literal["sum", "mean"]


@dataclass(frozen=True)
class ObjectiveConfig:
    """Parameters of the objective; the defaults are those of docs/sources.md where it gives one.

    Attributes:
        lam: λ, the reward of choosing a position that is not judged.
        gamma: γ, the discount factor.
        clip_low: The ratio is clipped below at 1 - clip_low.
        clip_high: The ratio is clipped above at 1 + clip_high.
        baseline: "mean" of the group (docs/sources.md), "leave_one_out" or "ema" (`dllm_rl.baseline`); the last with a
            `std_floor` or without a scale.
        ema_decay: Share of its value that the moving average of "ema" keeps at each roll-out.
        scale: "std" divides advantages by the group's standard deviation (docs/sources.md), "none" does not.
        std_eps: Added to that standard deviation.
        std_floor: Smallest standard deviation to divide by.
        reduction: "sum" over steps (docs/sources.md), or "mean", which makes the step size independent of K.
        rl_weight: Weight of the first term.
        sft_weight: Weight of the second term.
        f_weight: What weighs f(s_k): "one_step" is sg[R_{k−1}] (docs/sources.md), "cumulative" the product of all
            ratios before s_k, "none" is 1.
        f_weight_cap: Largest weight of f(s_k).
        kl_weight: Weight of minus the divergence from a reference model; 0 needs no reference.
        kl_target: "tokens" leaves the order free, "actions" does not (`state_terms.kl_to_reference`).
        entropy_weight: Weight of the entropy of the position policy.
        ce_weight: Weight of the log-likelihood of the reference answer at the visited states.
        state_fraction: Share p of the distinct states that an update draws; what they contribute counts 1/p.
    """

    lam: float = 0.5
    gamma: float = 0.95
    clip_low: float = 0.2
    clip_high: float = 0.2
    baseline: Baseline = "mean"
    scale: Scale = "std"
    std_eps: float = 0.0
    reduction: Reduction = "sum"
    rl_weight: float = 1.0
    sft_weight: float = 1.0
    ema_decay: float = 0.9
    std_floor: float = 0.0
    f_weight: FWeight = "one_step"
    f_weight_cap: float = math.inf
    kl_weight: float = 0.0
    kl_target: KLTarget = "tokens"
    entropy_weight: float = 0.0
    ce_weight: float = 0.0
    state_fraction: float = 1.0

    def __post_init__(self) -> None:
        check_lam(self.lam)
        for name in ("std_floor", "kl_weight", "entropy_weight", "ce_weight"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or larger, got {getattr(self, name)}")
        for name, choices in (("reduction", Reduction), ("f_weight", FWeight), ("kl_target", KLTarget)):
            if getattr(self, name) not in get_args(choices):
                raise ValueError(f"{name} {getattr(self, name)!r} is unknown; use one of {get_args(choices)}")
        if not self.f_weight_cap > 0:
            raise ValueError(f"f_weight_cap must be positive, got {self.f_weight_cap}; inf is no cap")
        if self.baseline == "ema" and self.scale == "std" and self.std_floor == 0:
            raise ValueError(
                "baseline 'ema' with scale 'std' needs std_floor above 0 (try 0.1): a group may lie far from the "
                "average and have almost no spread"
            )
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"ema_decay must lie in [0, 1), got {self.ema_decay}")
        if not 0 < self.state_fraction <= 1:
            raise ValueError(f"state_fraction must lie in (0, 1], got {self.state_fraction}; 1 takes every state")


def log_expected_reward(
    position_logprobs: Tensor,
    answer_logprobs: Tensor,
    definite: Tensor,
    tail: Tensor,
    scored: Tensor,
    lam: float,
) -> Tensor:
    """log f(s), with f(s) = λ Σ_{ℓ∈S2} π(ℓ|s) + Σ_{ℓ∈S1} π(ℓ|s) π(y*_ℓ|ℓ,s).

    Where a position of S2 is scored its term is λ π(ℓ|s) π(y*_ℓ|ℓ,s), as λ is then paid for the answer's token
    alone. f is the expectation of the environment's reward over the policy's immediate action. It is computed by
    logsumexp over the logarithms of the terms, as docs/sources.md asks.

    Args:
        position_logprobs: fp32 `(N, R)`, log π(ℓ|s).
        answer_logprobs: fp32 `(N, R)`, log π(y*_ℓ|ℓ,s) on S1, and on S2 where it is scored; anything elsewhere.
        definite: bool `(N, R)`, S1: open judged positions whose token follows from the state.
        tail: bool `(N, R)`, S2: open positions that are not judged.
        scored: bool `(N, R)`, where λ is paid for y* alone.
        lam: λ.

    Returns:
        fp32 `(N,)`; -inf, without gradient, for a state with no term.
    """
    counted = definite | (tail & scored)
    logprobs = position_logprobs + answer_logprobs.masked_fill(~counted, 0.0)
    terms = torch.where(definite, logprobs, NEG_INF)
    if lam > 0:
        log_lam = torch.tensor(lam, dtype=terms.dtype, device=terms.device).log()
        terms = torch.where(tail, logprobs + log_lam, terms)
        some = (definite | tail).any(dim=1)
    else:
        some = definite.any(dim=1)
    safe = torch.where(some[:, None], terms, 0.0)
    return torch.where(some, safe.logsumexp(dim=1), NEG_INF)


def expected_reward(
    scores: StateScores,
    *,
    definite: Tensor,
    tail: Tensor,
    scored: Tensor,
    answers: Tensor,
    policy: PolicyConfig,
    lam: float,
) -> Tensor:
    """f(s) `(N,)` of scored states; 0, without gradient, where S1 and S2 are empty.

    Args:
        scores: The policy at N states.
        definite: bool `(N, R)`, S1.
        tail: bool `(N, R)`, S2.
        scored: bool `(N, R)`, where a position of S2 earns λ for y* alone.
        answers: int64 `(N, R)`, y* on S1 and where S2 is scored.
        policy: Temperatures.
        lam: λ.
    """
    counted = definite | (tail & scored)
    states, positions = counted.nonzero(as_tuple=True)
    logprobs = token_logprobs_at(scores, states, positions, answers[states, positions], policy.token_temperature)
    answer_logprobs = torch.zeros_like(scores.position_logprobs).masked_scatter(counted, logprobs)
    return log_expected_reward(scores.position_logprobs, answer_logprobs, definite, tail, scored, lam).exp()


def rollout_advantages(
    visited_rewards: Tensor, num_generations: int, config: ObjectiveConfig, ema: Tensor | None = None
) -> Tensor:
    """Advantages A_k `(T, K)` of T = Q·G trajectories, from f at each visited state `(T, K)`, 0 after the end.

    The action at step k is credited with the discounted rewards of the states that follow it. Trajectories that ended
    in an error take part in the group's statistics with their zeros.

    Args:
        visited_rewards: `(T, K)`, f at each visited state, 0 after the end.
        num_generations: G, trajectories for each problem.
        config: The objective.
        ema: `(T, K)`, the baseline "ema" at each step (`EmaBaseline.at`); None with any other baseline.
    """
    returns = return_after_action(visited_rewards, config.gamma)
    steps = returns.shape[-1]
    advantages = group_relative_advantage(
        returns.reshape(-1, num_generations, steps),
        baseline=config.baseline,
        scale=config.scale,
        std_eps=config.std_eps,
        std_floor=config.std_floor,
        ema=None if ema is None else ema.reshape(-1, num_generations, steps),
    )
    return advantages.reshape(returns.shape)


def step_weights(live: Tensor, decisions: Tensor, reduction: str) -> Tensor:
    """Weight `(T, K)` of each live step in J: 1/T, and with `reduction="mean"` also 1/K of its puzzle; 0 elsewhere.

    The mean over the G trajectories of a puzzle and then over Q puzzles is 1/T with T = Q·G.

    Args:
        live: bool `(T, K)`, where a decision was taken.
        decisions: int64 `(T,)`, K of each trajectory's puzzle.
        reduction: "sum" or "mean".
    """
    weights = loss_weights(live, "seq_mean_token_sum")
    return weights / decisions[:, None] if reduction == "mean" else weights


def incoming_ratio(ratio: Tensor) -> Tensor:
    """sg[R_{k−1}] `(T, K)` of ratios R_k `(T, K)`: the ratio of the decision that led to s_k, 1 at the first state."""
    return torch.cat([torch.ones_like(ratio[:, :1]), ratio[:, :-1]], dim=1).detach()


def f_weights(ratio: Tensor, kind: FWeight, cap: float = math.inf) -> Tensor:
    """Weight `(T, K)` of f(s_k), without gradient, from ratios R_k `(T, K)`: at most `cap`.

    "one_step" is sg[R_{k−1}] (docs/sources.md). "cumulative" is Π_{i<k} R_i, the exact importance weight of reaching
    s_k under the current policy when the roll-out's policy acted. "none" is 1.
    """
    if kind == "none":
        return torch.ones_like(ratio).clamp(max=cap)
    return incoming_ratio(ratio.cumprod(1) if kind == "cumulative" else ratio).clamp(max=cap)
