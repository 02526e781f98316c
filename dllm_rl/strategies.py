"""Decoding strategies: how the next positions, and the tokens at them, are chosen.

A strategy scores the masked positions of each state; it takes the best ones or, if it samples, draws in proportion to
exp(score). How many of the best a step takes is a number, a threshold on their score, or a bound on their entropy.
Tokens are the model's most probable ones, or drawn at the policy's token temperature.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dllm_rl.noise import inverse_cdf
from dllm_rl.policy import NEG_INF, PolicyConfig, StateScores
from llm_rl.core.logprobs import entropy_from_logits

PositionScore = Callable[[StateScores, Tensor], Tensor]


@dataclass(frozen=True)
class Strategy:
    """How to choose the next position and token.

    Attributes:
        name: Name of the strategy, in tables too.
        score: Maps scores of N states and the definite cells, bool `(N, R)`, to `(N, R)` with -inf where not masked.
        sample_position: Draw from softmax(score) rather than take the largest.
        sample_token: Draw the token at the policy's token temperature rather than take the most probable.
    """

    name: str
    score: PositionScore
    sample_position: bool = False
    sample_token: bool = False


def _policy(scores: StateScores, definite: Tensor) -> Tensor:
    return scores.position_logprobs


def _margin(scores: StateScores, definite: Tensor) -> Tensor:
    return scores.margins


def _at_masked(scores: StateScores, packed: Tensor) -> Tensor:
    """Scores `(N, R)` from values `(M,)` of the masked positions."""
    return torch.full_like(scores.margins, NEG_INF).masked_scatter(scores.row_of >= 0, packed)


def _probability(scores: StateScores, definite: Tensor) -> Tensor:
    return _at_masked(scores, scores.logits.amax(-1) - scores.logits.logsumexp(-1))


def _margin_difference(scores: StateScores, definite: Tensor) -> Tensor:
    first, second = scores.logits.softmax(-1).topk(2, dim=-1).values.unbind(-1)
    return _at_masked(scores, first - second)


def _entropy(scores: StateScores, definite: Tensor) -> Tensor:
    return _at_masked(scores, -entropy_from_logits(scores.logits))


def _left_to_right(scores: StateScores, definite: Tensor) -> Tensor:
    position = torch.arange(scores.margins.shape[1], device=scores.margins.device, dtype=scores.margins.dtype)
    return (-position).expand_as(scores.margins).masked_fill(scores.row_of < 0, NEG_INF)


def _uniform(scores: StateScores, definite: Tensor) -> Tensor:
    return torch.zeros_like(scores.margins).masked_fill(scores.row_of < 0, NEG_INF)


def _definite_first(scores: StateScores, definite: Tensor) -> Tensor:
    without = ~definite.any(dim=1, keepdim=True)
    return scores.margins.masked_fill(~(definite | without), NEG_INF)


def semi_autoregressive(block_length: int) -> Strategy:
    """Blocks of response positions from left to right, the highest probability first inside a block.

    This is the semi-autoregressive remasking of LLaDA (arXiv:2502.09992). Blocks start at response positions 0,
    `block_length`, 2·`block_length` …; one without a masked position is passed over. No step reaches beyond its block.

    Raises:
        ValueError: `block_length` is not positive.
    """
    if block_length < 1:
        raise ValueError(f"block_length={block_length} must be at least 1")

    def score(scores: StateScores, definite: Tensor) -> Tensor:
        masked = scores.row_of >= 0
        block = torch.arange(masked.shape[1], device=masked.device) // block_length
        current = masked.int().argmax(1, keepdim=True) // block_length
        return _probability(scores, definite).masked_fill(block != current, NEG_INF)

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
        Strategy("definite_first", _definite_first),
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


def check_limits(
    strategy: Strategy,
    *,
    tokens_per_step: int | None,
    threshold: float | None,
    entropy_bound: float | None,
) -> None:
    """Look at what limits the positions of a step (`dllm_rl.decode`, `dllm_rl.rollout`).

    Raises:
        ValueError: `tokens_per_step` or `entropy_bound` is too small; or a threshold or a bound comes with the other
            one, with a strategy that draws positions, or with one token a step, where it decides nothing.
    """
    if tokens_per_step is not None and tokens_per_step < 1:
        raise ValueError(f"tokens_per_step={tokens_per_step} must be at least 1, or None for no bound")
    if entropy_bound is not None and not entropy_bound >= 0:
        raise ValueError(f"entropy_bound={entropy_bound} must be at least 0 nats, e.g. 0.1")
    limits = {"threshold": threshold, "entropy_bound": entropy_bound}
    given = [f"{name}={value}" for name, value in limits.items() if value is not None]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} are two rules for one thing; leave one of them out")
    if given and strategy.sample_position:
        raise ValueError(
            f"{given[0]} does not fit strategy {strategy.name!r}, which draws positions; use one that takes the best, "
            "e.g. 'margin' or 'probability'"
        )
    if given and tokens_per_step == 1:
        raise ValueError(f"{given[0]} decides nothing at tokens_per_step=1; use None for no bound, or a larger number")


def choose(
    strategy: Strategy,
    scores: StateScores,
    definite: Tensor,
    states: Tensor,
    *,
    policy: PolicyConfig,
    uniforms: Tensor | None = None,
    tokens_per_step: int | None = 1,
    threshold: float | None = None,
    entropy_bound: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What A trajectories in given states do next: the positions that they fill, and the tokens.

    Args:
        strategy: How to choose.
        scores: The policy at N states.
        definite: bool `(N, R)`, the definite positions of the states.
        states: int64 `(A,)`, the state of each trajectory.
        policy: Temperatures, for the strategies that draw.
        uniforms: float64 `(A, C, 2)` in [0, 1), for the position and the token of a trajectory's first, second … choice
            of this step. C is at least the number of choices. Strategies that do not draw need none.
        tokens_per_step: Most positions of a trajectory; None is no bound.
        threshold: Least score of the positions beside the best one; None is none. Not for strategies that draw them.
        entropy_bound: Bound γ of `within_entropy_bound`; None is none. Not for strategies that draw positions.

    Returns:
        The trajectory (its place among the A), rank (0 for its first choice), position and token of each choice, int64
        `(B,)` each, trajectory by trajectory in the order of choice.

    Raises:
        ValueError: The strategy leaves a state without a position, or chooses one that is not masked.
    """
    score = strategy.score(scores, definite)[states]  # (A, R)
    if strategy.sample_position:
        rows, ranks, positions = draw_positions(score, tokens_per_step, _needed(uniforms)[..., 0])
    else:
        entropies = None if entropy_bound is None else -_entropy(scores, definite)[states]  # (A, R)
        rows, ranks, positions = best_positions(score, tokens_per_step, threshold, entropies, entropy_bound)
    logit_rows = scores.row_of[states[rows], positions]  # (B,)
    if not bool(rows.bincount(minlength=len(states)).all()) or bool((logit_rows < 0).any()):
        raise ValueError(f"strategy {strategy.name!r} must give every state a finite score at a masked position")

    logits = scores.logits[logit_rows]  # (B, V)
    if strategy.sample_token:
        tokens = inverse_cdf(logits / policy.token_temperature, _needed(uniforms)[rows, ranks, 1])
    else:
        tokens = logits.argmax(dim=1)
    return rows, ranks, positions, tokens


def best_positions(
    score: Tensor,
    count: int | None,
    threshold: float | None,
    entropies: Tensor | None = None,
    entropy_bound: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` best columns of each row; of equal ones the left one.

    Args:
        score: fp32 `(N, R)`, -inf where a column cannot be chosen.
        count: Most columns of a row; None is no bound.
        threshold: Least score of all columns but the best one of a row; None is none.
        entropies: fp32 `(N, R)`, the entropy of each column that can be chosen, in nats; needed with a bound.
        entropy_bound: Bound γ of `within_entropy_bound`; None is none.

    Returns:
        Rows, ranks within the row (0 for the best) and columns, int64 `(B,)` each, row by row.
    """
    values, columns = score.sort(dim=1, descending=True, stable=True)
    chosen = values[:, :count] > NEG_INF
    if threshold is not None:
        chosen[:, 1:] &= values[:, 1:count] >= threshold
    if entropies is not None and entropy_bound is not None:
        chosen &= within_entropy_bound(entropies.gather(1, columns[:, :count]), entropy_bound)
    rows, ranks = chosen.nonzero(as_tuple=True)
    return rows, ranks, columns[rows, ranks]


def within_entropy_bound(entropies: Tensor, bound: float) -> Tensor:
    """The longest beginning U of each row with Σ_{l∈U} H_l − max_{l∈U} H_l ≤ γ.

    This is the rule of the EB-sampler (arXiv:2505.24857). The left side bounds how far the joint distribution of the
    tokens at U can be from the product of their own, from which they are taken at once. It never falls as U grows, and
    is 0 for one position, so that every U has one.

    Args:
        entropies: `(N, C)` in nats, at least 0, in the order in which the positions are to be filled.
        bound: γ, at least 0. With 0 positions go together as long as all but one of them have no entropy.

    Returns:
        bool `(N, C)`.
    """
    entropies = entropies.double()
    excess = entropies.cumsum(1) - entropies.cummax(1).values
    return (excess <= bound).cumprod(1).bool()


def draw_positions(score: Tensor, count: int | None, uniforms: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Columns of each row drawn without replacement, one after the other in proportion to exp(score) of those left.

    Args:
        score: fp32 `(N, R)`, -inf where a column cannot be chosen.
        count: Columns to draw in each row, fewer where fewer can be chosen; None draws all.
        uniforms: float64 `(N, C)` in [0, 1), for the draws of a row in their order.

    Returns:
        Rows, ranks within the row (0 for the first draw) and columns, int64 `(B,)` each, row by row.
    """
    left = score.clone()
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    while count is None or len(parts) < count:
        rows = (left > NEG_INF).any(dim=1).nonzero().squeeze(1)
        if not len(rows):
            break
        columns = inverse_cdf(left[rows], uniforms[rows, len(parts)])
        left[rows, columns] = NEG_INF
        parts.append((rows, torch.full_like(rows, len(parts)), columns))
    if not parts:
        return (uniforms.new_empty(0, dtype=torch.long),) * 3
    rows, ranks, columns = (torch.cat(column) for column in zip(*parts, strict=True))
    order = rows.argsort(stable=True)
    return rows[order], ranks[order], columns[order]


def _needed(uniforms: Tensor | None) -> Tensor:
    if uniforms is None:
        raise ValueError("a strategy that draws needs uniforms; pass them")
    return uniforms
