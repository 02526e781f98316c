"""Decoding strategies: how the next position, and the token at it, are chosen.

A strategy scores the masked positions of each state; it takes the best ones or, if it samples, draws in proportion to
exp(score). Tokens are the model's most probable ones, or drawn at the policy's token temperature. `dllm_rl.rollout`
takes one position a step, `dllm_rl.decode` any number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from dllm_rl.noise import inverse_cdf
from dllm_rl.policy import NEG_INF, StateScores
from llm_rl.core.logprobs import entropy_from_logits
from llm_rl.training.modes import evaluation_mode

PositionScore = Callable[[StateScores, Tensor], Tensor]
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Strategy:
    """How to choose the next position and token.

    Attributes:
        name: Name of the strategy, in tables too.
        score: Maps scores of N states and the definite cells, bool `(N, R)`, to `(N, R)` with -inf where not masked.
        sample_position: Draw from softmax(score) rather than take the largest.
        sample_token: Draw the token at the policy's token temperature rather than take the most probable.
        needs_forced: Whether the score looks at the definite cells.
    """

    name: str
    score: PositionScore
    sample_position: bool = False
    sample_token: bool = False
    needs_forced: bool = False


def _policy(scores: StateScores, forced: Tensor) -> Tensor:
    return scores.position_logprobs


def _margin(scores: StateScores, forced: Tensor) -> Tensor:
    return scores.margins


def _at_masked(scores: StateScores, packed: Tensor) -> Tensor:
    """Scores `(N, R)` from values `(M,)` of the masked positions."""
    return torch.full_like(scores.margins, NEG_INF).masked_scatter(scores.row_of >= 0, packed)


def _probability(scores: StateScores, forced: Tensor) -> Tensor:
    return _at_masked(scores, scores.logits.amax(-1) - scores.logits.logsumexp(-1))


def _margin_difference(scores: StateScores, forced: Tensor) -> Tensor:
    first, second = scores.logits.softmax(-1).topk(2, dim=-1).values.unbind(-1)
    return _at_masked(scores, first - second)


def _entropy(scores: StateScores, forced: Tensor) -> Tensor:
    return _at_masked(scores, -entropy_from_logits(scores.logits))


def _left_to_right(scores: StateScores, forced: Tensor) -> Tensor:
    position = torch.arange(scores.margins.shape[1], device=scores.margins.device, dtype=scores.margins.dtype)
    return (-position).expand_as(scores.margins).masked_fill(scores.row_of < 0, NEG_INF)


def _uniform(scores: StateScores, forced: Tensor) -> Tensor:
    return torch.zeros_like(scores.margins).masked_fill(scores.row_of < 0, NEG_INF)


def _forced_first(scores: StateScores, forced: Tensor) -> Tensor:
    without = ~forced.any(dim=1, keepdim=True)
    return scores.margins.masked_fill(~(forced | without), NEG_INF)


def semi_autoregressive(block_length: int) -> Strategy:
    """Blocks of response positions from left to right, the highest probability first inside a block.

    This is the semi-autoregressive remasking of LLaDA (arXiv:2502.09992). Blocks start at response positions 0,
    `block_length`, 2·`block_length` …; one without a masked position is passed over. No step reaches beyond its block.

    Raises:
        ValueError: `block_length` is not positive.
    """
    if block_length < 1:
        raise ValueError(f"block_length={block_length} must be at least 1")

    def score(scores: StateScores, forced: Tensor) -> Tensor:
        masked = scores.row_of >= 0
        block = torch.arange(masked.shape[1], device=masked.device) // block_length
        current = masked.int().argmax(1, keepdim=True) // block_length
        return _probability(scores, forced).masked_fill(block != current, NEG_INF)

    return Strategy("semi_autoregressive", score)


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("random", _uniform, sample_position=True),
        Strategy("probability", _probability),
        Strategy("margin", _margin),
        Strategy("margin_difference", _margin_difference),
        Strategy("entropy", _entropy),
        Strategy("left_to_right", _left_to_right),
        semi_autoregressive(block_length=8),
        Strategy("policy", _policy, sample_position=True, sample_token=True),
        Strategy("policy_greedy", _policy),
        Strategy("forced_first", _forced_first, needs_forced=True),
    )
}
"""By name: uniform order; highest probability ("confidence"); largest margin, as the log-ratio of docs/objective.md or
as the difference p₁ − p₂ (arXiv:2502.06768); lowest entropy; left to right; blocks; the policy as trained, drawn or at
its mode (the same order as the largest margin); and an oracle that fills definite cells first, by margin among them."""


def get_strategy(name: str) -> Strategy:
    """A strategy of `STRATEGIES`.

    Raises:
        ValueError: The name is unknown.
    """
    if name not in STRATEGIES:
        raise ValueError(f"decoding strategy {name!r} is unknown; choose one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


def in_evaluation_mode(function: Callable[Concatenate[nn.Module, P], R]) -> Callable[Concatenate[nn.Module, P], R]:
    """Put the model, the first argument, in evaluation mode for a call; every module gets its mode back, come what may.

    The function then runs without dropout, and a model that is being trained goes on in training mode after an error.
    """

    @wraps(function)
    def wrapped(model: nn.Module, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with evaluation_mode(model):
            return function(model, *args, **kwargs)

    return wrapped


def draw(log_weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """One index `(N,)` a row, drawn from log-weights `(N, C)` that may be -inf; it raises what `inverse_cdf` does."""
    uniforms = torch.rand(len(log_weights), dtype=torch.float64, generator=generator, device=log_weights.device)
    return inverse_cdf(log_weights, uniforms)
