"""The objective of docs/objective.md: a clipped policy-gradient term for the order, and the exact expected reward f.

    J = 1/G Σ_j Σ_{k≤K−2} min(R_k A_k, clip(R_k) A_k) + 1/G Σ_j Σ_{k≤K−1} sg[R_{k−1}] f(s_k),        R_{−1} = 1

to be maximized, averaged over puzzles. With R = 1 the second sum is the derivative of the expectation over the
immediate action in closed form, and the first is the score-function term for everything that follows. Both terms in
closed form are in `dllm_rl.closed_form`, further terms, all off by default, in `dllm_rl.state_terms`.
"""

from dataclasses import dataclass, field, fields
from typing import Literal

import torch
from torch import Tensor

from dllm_rl.policy import NEG_INF, PolicyConfig, StateScores, token_logprobs_at
from dllm_rl.task import Learned, check_lam
from llm_rl.core._checks import check_choice
from llm_rl.core.advantages import Baseline, Scale, group_relative_advantage, return_after_action
from llm_rl.core.aggregate import loss_weights

Objective = Literal["sampled", "closed"]
FForm = Literal["linear", "log"]
FWeight = Literal["one_step", "cumulative", "none"]
KLTarget = Literal["tokens", "actions"]
Reduction = Literal["sum", "mean"]
CHOICES = {
    "objective": Objective,
    "advantage_baseline": Baseline,
    "advantage_scale": Scale,
    "reduction": Reduction,
    "f_form": FForm,
    "f_weight": FWeight,
    "kl_target": KLTarget,
    "ce_on": Learned,
}
SAMPLED_ALONE = (
    "clip_low",
    "clip_high",
    "advantage_baseline",
    "advantage_scale",
)
"""Options of the first term as it is sampled; in closed form it has no ratio, no clip and no advantage."""
CLOSED_ALONE = ("value_decay",)
"""Options of the first term in closed form."""


@dataclass
class ObjectiveConfig:
    """Parameters of the objective; the defaults are those of docs/sources.md where it has one.

    Raises:
        ValueError: A value is out of range or a name unknown.
    """

    lam: float = field(default=0.5, metadata={"help": "lambda: reward of a position that is not judged."})
    gamma: float = field(default=0.95, metadata={"help": "Discount factor."})
    rl_weight: float = field(default=1.0, metadata={"help": "Weight of the clipped policy-gradient term."})
    sft_weight: float = field(default=1.0, metadata={"help": "Weight of the expected-reward term f."})
    clip_low: float = field(default=0.2, metadata={"help": "The ratio is clipped below at 1 - clip_low."})
    clip_high: float = field(default=0.2, metadata={"help": "The ratio is clipped above at 1 + clip_high."})
    advantage_baseline: Baseline = field(
        default="mean", metadata={"help": "Returns are compared with the group's mean, or leave_one_out."}
    )
    advantage_scale: Scale = field(
        default="std", metadata={"help": "Advantages are divided by the group's std, or not (none)."}
    )
    reduction: Reduction = field(
        default="sum", metadata={"help": "Over a trajectory's steps: sum, or mean, independent of their number K."}
    )
    f_form: FForm = field(
        default="linear",
        metadata={"help": "The second term is of f itself (linear), or of its logarithm, 0 where f is 0 (log)."},
    )
    f_weight: FWeight = field(
        default="one_step",
        metadata={"help": "Weight of f at a state: the last ratio (one_step), all so far (cumulative), or none."},
    )
    kl_weight: float = field(default=0.0, metadata={"help": "Weight of the divergence from the model at the start."})
    kl_target: KLTarget = field(
        default="tokens",
        metadata={"help": "What the divergence is of: tokens leaves the order free, actions does not."},
    )
    entropy_weight: float = field(default=0.0, metadata={"help": "Weight of the entropy of the position policy."})
    ce_weight: float = field(
        default=0.0, metadata={"help": "Weight of the masked cross-entropy against the answer at visited states."}
    )
    ce_on: Learned = field(
        default="masked", metadata={"help": "It counts all masked positions, or definite ones and the tail."}
    )
    state_fraction: float = field(
        default=1.0, metadata={"help": "Draw this share of the distinct states for an update, weighted by 1/share."}
    )
    objective: Objective = field(
        default="sampled",
        metadata={"help": "The first term is that of the sampled actions, or sums over all of a state's (closed)."},
    )
    value_decay: float = field(
        default=0.9,
        metadata={
            "help": "With closed, a following state is worth the mean return where as many positions are masked; the "
            "share of its value that this mean keeps at each roll-out."
        },
    )

    def __post_init__(self) -> None:
        check_lam(self.lam)
        for name in ("kl_weight", "entropy_weight", "ce_weight"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or larger, got {getattr(self, name)}")
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        if not 0 < self.state_fraction <= 1:
            raise ValueError(f"state_fraction must lie in (0, 1], got {self.state_fraction}; 1 takes every state")
        self._check_closed_form()

    def _check_closed_form(self) -> None:
        if not 0 <= self.value_decay < 1:
            raise ValueError(f"value_decay must lie in [0, 1), got {self.value_decay}")
        defaults = {item.name: item.default for item in fields(ObjectiveConfig)}
        other, names = ("sampled", SAMPLED_ALONE) if self.objective == "closed" else ("closed", CLOSED_ALONE)
        if changed := [f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name) != defaults[name]]:
            raise ValueError(
                f"{', '.join(changed)} means nothing with objective={self.objective!r}; leave it out, or set "
                f"objective={other!r}"
            )
        if self.objective == "closed" and min(self.rl_weight, self.sft_weight) < 0:
            raise ValueError(
                f"objective='closed' needs weights of 0 or larger, got rl_weight={self.rl_weight} and "
                f"sft_weight={self.sft_weight}"
            )


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


def log_expected_reward_of(
    scores: StateScores,
    *,
    definite: Tensor,
    tail: Tensor,
    scored: Tensor,
    answers: Tensor,
    policy: PolicyConfig,
    lam: float,
) -> Tensor:
    """log f(s) `(N,)` of scored states; -inf, without gradient, where S1 and S2 are empty.

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
    return log_expected_reward(scores.position_logprobs, answer_logprobs, definite, tail, scored, lam)


def f_term(log_f: Tensor, form: FForm) -> Tensor:
    """What the second term adds up, `(N,)`, from log f(s) `(N,)`: f, or its logarithm and 0 where f is 0."""
    return log_f.exp() if form == "linear" else torch.where(log_f > NEG_INF, log_f, 0.0)


def rollout_advantages(visited_rewards: Tensor, num_generations: int, config: ObjectiveConfig) -> Tensor:
    """Advantages A_k `(T, K)` of T = Q·G trajectories, from f at each visited state `(T, K)`, 0 after the end.

    The action at step k is credited with the discounted rewards of the states that follow it. Trajectories that ended
    in an error take part in the group's statistics with their zeros.

    Args:
        visited_rewards: `(T, K)`, f at each visited state, 0 after the end.
        num_generations: G, trajectories for each problem.
        config: The objective.
    """
    returns = return_after_action(visited_rewards, config.gamma)
    steps = returns.shape[-1]
    advantages = group_relative_advantage(
        returns.reshape(-1, num_generations, steps),
        baseline=config.advantage_baseline,
        scale=config.advantage_scale,
    )
    return advantages.reshape(returns.shape)


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


def incoming_ratio(ratio: Tensor) -> Tensor:
    """sg[R_{k−1}] `(T, K)` of ratios R_k `(T, K)`: the ratio of the decision that led to s_k, 1 at the first state."""
    return torch.cat([torch.ones_like(ratio[:, :1]), ratio[:, :-1]], dim=1).detach()


def f_weights(ratio: Tensor, kind: FWeight) -> Tensor:
    """Weight `(T, K)` of f(s_k), without gradient, from ratios R_k `(T, K)`.

    "one_step" is sg[R_{k−1}] (docs/sources.md). "cumulative" is Π_{i<k} R_i, the exact importance weight of reaching
    s_k under the current policy when the roll-out's policy acted. "none" is 1.
    """
    if kind == "none":
        return torch.ones_like(ratio)
    return incoming_ratio(ratio.cumprod(1) if kind == "cumulative" else ratio)
