"""Decoding strategies: how the next position, and the token at it, are chosen.

A strategy scores the masked positions of each state; it takes the best one or, if it samples, draws in proportion to
exp(score). Tokens are the model's most probable ones, or drawn at the policy's token temperature.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dllm_rl.policy import NEG_INF, StateScores

PositionScore = Callable[[StateScores, Tensor], Tensor]


@dataclass(frozen=True)
class Strategy:
    """How to choose the next position and token.

    Attributes:
        name: For tables.
        score: Maps scores of N states and the forced cells, bool `(N, R)`, to `(N, R)` with -inf where not masked.
        sample_position: Draw from softmax(score) rather than take the largest.
        sample_token: Draw the token at the policy's token temperature rather than take the most probable.
    """

    name: str
    score: PositionScore
    sample_position: bool = False
    sample_token: bool = False


def _policy(scores: StateScores, forced: Tensor) -> Tensor:
    return scores.position_logprobs


def _margin(scores: StateScores, forced: Tensor) -> Tensor:
    return scores.margins


def _probability(scores: StateScores, forced: Tensor) -> Tensor:
    masked = scores.row_of >= 0
    best = scores.logits.amax(-1) - scores.logits.logsumexp(-1)
    return torch.full_like(scores.margins, NEG_INF).masked_scatter(masked, best)


def _uniform(scores: StateScores, forced: Tensor) -> Tensor:
    return torch.zeros_like(scores.margins).masked_fill(scores.row_of < 0, NEG_INF)


def _forced_first(scores: StateScores, forced: Tensor) -> Tensor:
    without = ~forced.any(dim=1, keepdim=True)
    return scores.margins.masked_fill(~(forced | without), NEG_INF)


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("random", _uniform, sample_position=True),
        Strategy("probability", _probability),
        Strategy("margin", _margin),
        Strategy("policy", _policy, sample_position=True, sample_token=True),
        Strategy("policy_greedy", _policy),
        Strategy("forced_first", _forced_first),
    )
}
"""By name: uniform order; highest probability; largest margin; the policy as trained, drawn or at its mode (the same
order as the largest margin); and an oracle that fills forced cells first, by margin among them."""


def get_strategy(name: str) -> Strategy:
    """A strategy of `STRATEGIES`.

    Raises:
        ValueError: The name is unknown.
    """
    if name not in STRATEGIES:
        raise ValueError(f"decoding strategy {name!r} is unknown; choose one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


def draw(log_weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """One index `(N,)` a row, drawn from log-weights `(N, C)` that may be -inf."""
    return torch.multinomial(torch.softmax(log_weights, dim=-1), 1, generator=generator).squeeze(1)
