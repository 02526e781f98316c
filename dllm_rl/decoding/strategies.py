"""Decoding strategies: how the next positions, and the tokens at them, are chosen.

A strategy scores the masked positions of each state; it takes the best ones or, if it samples, draws in proportion to
exp(score). Tokens are the model's most probable ones, or drawn at the policy's token temperature.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log1p

import torch
from torch import Tensor

from dllm_rl.policy import NEG_INF, PolicyConfig, StateScores
from llm_rl.core.logprobs import entropy_from_logits

PositionScore = Callable[[StateScores, Tensor], Tensor]
Bounds = Callable[[PolicyConfig], tuple[float, float]]


def unbounded(policy: PolicyConfig) -> tuple[float, float]:
    """The bounds of a score of which nothing is known."""
    return -inf, inf


@dataclass(frozen=True)
class Strategy:
    """How to choose the next position and token.

    Attributes:
        name: Name of the strategy, in tables too.
        score: Maps scores of N states and the definite cells, bool `(N, R)`, to `(N, R)` with -inf where not masked.
        sample_position: Draw from softmax(score) rather than take the largest.
        sample_token: Draw the token at the policy's token temperature rather than take the most probable.
        scale: What a score is, in words, for messages.
        bounds: Maps the policy to the least and the largest score that a masked position can have.
    """

    name: str
    score: PositionScore
    sample_position: bool = False
    sample_token: bool = False
    scale: str = "its own"
    bounds: Bounds = unbounded

    @property
    def draws(self) -> bool:
        """Whether positions or tokens are drawn."""
        return self.sample_position or self.sample_token


def _at_most_zero(policy: PolicyConfig) -> tuple[float, float]:
    return -inf, 0.0


def _of_margins(policy: PolicyConfig) -> tuple[float, float]:
    return 0.0, log1p(1 / policy.margin_eps)


def _of_differences(policy: PolicyConfig) -> tuple[float, float]:
    return 0.0, 1.0


def _policy(scores: StateScores, definite: Tensor) -> Tensor:
    return scores.position_logprobs


def _margin(scores: StateScores, definite: Tensor) -> Tensor:
    return scores.margins


def _at_masked(scores: StateScores, packed: Tensor) -> Tensor:
    """Scores `(N, R)` from values `(M,)` of the masked positions."""
    return torch.full_like(scores.margins, NEG_INF).masked_scatter(scores.row_of >= 0, packed)


def _probability(scores: StateScores, definite: Tensor) -> Tensor:
    return _at_masked(scores, scores.best_logprobs)


def _margin_difference(scores: StateScores, definite: Tensor) -> Tensor:
    first, second = scores.logits.softmax(-1).topk(2, dim=-1).values.unbind(-1)
    return _at_masked(scores, first - second)


def _entropy(scores: StateScores, definite: Tensor) -> Tensor:
    return -position_entropies(scores)


def position_entropies(scores: StateScores) -> Tensor:
    """Entropies of the model's own distributions, at temperature 1, in nats: `(N, R)`, inf where not masked."""
    return -_at_masked(scores, -entropy_from_logits(scores.logits))


def _left_to_right(scores: StateScores, definite: Tensor) -> Tensor:
    position = torch.arange(scores.margins.shape[1], device=scores.margins.device, dtype=scores.margins.dtype)
    return (-position).expand_as(scores.margins).masked_fill(scores.row_of < 0, NEG_INF)


def _uniform(scores: StateScores, definite: Tensor) -> Tensor:
    return torch.zeros_like(scores.margins).masked_fill(scores.row_of < 0, NEG_INF)


def _definite_first(scores: StateScores, definite: Tensor) -> Tensor:
    # Where nothing follows from the state it goes by margin among all, as who has to guess.
    without = ~definite.any(dim=1, keepdim=True)
    return scores.margins.masked_fill(~(definite | without), NEG_INF)


LOG_PROBABILITY = "log p₁, log(0.9) for a confidence of 0.9"
LOG_RATIO = "log p₁/p₂"


def semi_autoregressive(block_length: int) -> Strategy:
    """Blocks of response positions from left to right, the highest probability first inside a block.

    This is the semi-autoregressive remasking of LLaDA (arXiv:2502.09992). Blocks start at response positions 0,
    `block_length`, 2·`block_length` …; one without a masked position is passed over.

    Raises:
        ValueError: `block_length` is not positive.
    """
    if block_length < 1:
        raise ValueError(f"block_length={block_length} must be at least 1")

    def score(scores: StateScores, definite: Tensor) -> Tensor:
        masked = scores.row_of >= 0
        block = torch.arange(masked.shape[1], device=masked.device) // block_length
        # The leftmost mask says which block is at work, so no step reaches beyond it.
        current = masked.int().argmax(1, keepdim=True) // block_length
        return _probability(scores, definite).masked_fill(block != current, NEG_INF)

    return Strategy("semi_autoregressive", score, scale=LOG_PROBABILITY, bounds=_at_most_zero)


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("random", _uniform, sample_position=True),
        Strategy("probability", _probability, scale=LOG_PROBABILITY, bounds=_at_most_zero),
        Strategy("margin", _margin, scale=LOG_RATIO, bounds=_of_margins),
        Strategy("margin_difference", _margin_difference, scale="p₁ − p₂", bounds=_of_differences),
        Strategy("entropy", _entropy, scale="minus the nats of the entropy", bounds=_at_most_zero),
        Strategy("left_to_right", _left_to_right, scale="minus the number of the position", bounds=_at_most_zero),
        semi_autoregressive(block_length=8),
        Strategy("policy", _policy, sample_position=True, sample_token=True),
        Strategy("policy_greedy", _policy, scale="log π of the position", bounds=_at_most_zero),
        Strategy("definite_first", _definite_first, scale=LOG_RATIO, bounds=_of_margins),
    )
}
"""By name: uniform order; highest probability ("confidence"); largest margin, as the log-ratio of docs/objective.md or
as the difference p₁ − p₂ (arXiv:2502.06768); lowest entropy; left to right; blocks; the policy as trained, drawn or at
its mode (the same order as the largest margin); and an oracle that fills definite cells first, by margin among them."""


def get_strategy(name: str | Strategy) -> Strategy:
    """A strategy of `STRATEGIES`; one that is a strategy already is given back as it is.

    Raises:
        ValueError: The name is unknown.
    """
    if isinstance(name, Strategy):
        return name
    if name not in STRATEGIES:
        raise ValueError(f"decoding strategy {name!r} is unknown; choose one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
