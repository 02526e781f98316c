"""What a step does: which positions it fills, by the strategy and the limits of a `Decoding`, and with which tokens."""

import torch
from torch import Tensor

from dllm_rl.decoding.noise import inverse_cdf, inverse_cdf_of
from dllm_rl.decoding.settings import Decoding, EntropyBound, Threshold
from dllm_rl.decoding.strategies import get_strategy, position_entropies
from dllm_rl.decoding.trajectories import sums_at
from dllm_rl.policy import NEG_INF, StateScores


def choose(
    how: Decoding, scores: StateScores, definite: Tensor, states: Tensor, uniforms: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What A trajectories in given states do next: the positions that they fill, and the tokens.

    Args:
        how: Strategy, limits and temperatures.
        scores: The policy at N states.
        definite: bool `(N, R)`, the definite positions of the states.
        states: int64 `(A,)`, the state of each trajectory; it has a masked position.
        uniforms: float64 `(A, C, 2)` in [0, 1), for the position and the token of a trajectory's first, second … choice
            of this step. C is at least the number of choices. Strategies that do not draw need none.

    Returns:
        The trajectory (its place among the A), rank (0 for its first choice), position and token of each choice, int64
        `(B,)` each, trajectory by trajectory in the order of choice.

    Raises:
        ValueError: The strategy leaves a state without a position, or chooses one that is not masked.
    """
    strategy, count = get_strategy(how.strategy), how.tokens_per_step
    score = strategy.score(scores, definite)[states]  # (A, R)
    # Where: positions drawn one after the other, or the best ones as far as the limit goes.
    if strategy.sample_position:
        rows, ranks, positions = draw_positions(score, count, _needed(uniforms, "a draw")[..., 0])
    else:
        bounded = isinstance(how.limit, EntropyBound)
        entropies = position_entropies(scores)[states] if bounded else None  # (A, R)
        rows, ranks, positions = best_positions(score, count, how.limit, entropies)
    logit_rows = scores.row_of[states[rows], positions]  # (B,)
    everywhere = sums_at(rows, torch.ones_like(rows), len(states)) > 0  # (A,)
    if not bool(everywhere.all() & (logit_rows >= 0).all()):
        raise ValueError(f"strategy {strategy.name!r} must give every state a finite score at a masked position")

    # What: each token by its own position's distribution, as if no other were written.
    if strategy.sample_token:
        given = _needed(uniforms, "a draw")[rows, ranks, 1]
        tokens = inverse_cdf_of(scores.logits, logit_rows, given, how.policy.token_temperature)
    else:
        tokens = scores.logits[logit_rows].argmax(dim=1)
    return rows, ranks, positions, tokens


def best_positions(
    score: Tensor, count: int | None, limit: Threshold | EntropyBound | None = None, entropies: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` best columns of each row; of equal ones the left one.

    Args:
        score: fp32 `(A, R)`, -inf where a column cannot be chosen.
        count: Most columns of a row; None is no bound.
        limit: Which of them are taken; None is all of them. The best one is taken in any case.
        entropies: fp32 `(A, R)`, the entropy of each column that can be chosen, in nats; needed with a bound on them.

    Returns:
        Rows, ranks within the row (0 for the best) and columns, int64 `(B,)` each, row by row.
    """
    values, columns = score.sort(dim=1, descending=True, stable=True)
    values, columns = values[:, :count], columns[:, :count]
    chosen = values > NEG_INF
    # No limit stops the first: a step that fills nothing would come again and again.
    match limit:
        case Threshold(least):
            chosen[:, 1:] &= values[:, 1:] >= least
        case EntropyBound(most):
            chosen &= within_entropy_bound(_needed(entropies, "an entropy bound").gather(1, columns), most)
    rows, ranks = chosen.nonzero(as_tuple=True)
    return rows, ranks, columns[rows, ranks]


def within_entropy_bound(entropies: Tensor, bound: float) -> Tensor:
    """The longest beginning U of each row with Σ_{l∈U} H_l − max_{l∈U} H_l ≤ γ.

    This is the rule of the EB-sampler (arXiv:2505.24857). The left side bounds how far the joint distribution of the
    tokens at U can be from the product of their own, from which they are taken at once. It never falls as U grows, and
    is 0 for one position, so that every U has one.

    Args:
        entropies: `(A, C)` in nats, at least 0, in the order in which the positions are to be filled.
        bound: γ, at least 0. With 0 positions go together as long as all but one of them have no entropy.

    Returns:
        bool `(A, C)`.
    """
    entropies = entropies.double()
    excess = entropies.cumsum(1) - entropies.cummax(1).values
    return (excess <= bound).cumprod(1).bool()


def draw_positions(score: Tensor, count: int | None, uniforms: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Columns of each row drawn without replacement, one after the other in proportion to exp(score) of those left.

    Args:
        score: fp32 `(A, R)`, -inf where a column cannot be chosen.
        count: Columns to draw in each row, fewer where fewer can be chosen; None draws all.
        uniforms: float64 `(A, C)` in [0, 1), for the draws of a row in their order.

    Returns:
        Rows, ranks within the row (0 for the first draw) and columns, int64 `(B,)` each, row by row.
    """
    choices = (score > NEG_INF).sum(1)  # (A,)
    most = int(choices.max()) if count is None else min(count, uniforms.shape[1])
    left, columns = score, torch.empty(len(score), most, dtype=torch.int64, device=score.device)
    for rank in range(most):
        left = left.masked_fill((choices <= rank)[:, None], 0.0)  # what is drawn there is left out below
        columns[:, rank] = inverse_cdf(left, uniforms[:, rank])
        left = left.scatter(1, columns[:, rank, None], NEG_INF)
    rows, ranks = (torch.arange(most, device=score.device) < choices[:, None]).nonzero(as_tuple=True)
    return rows, ranks, columns[rows, ranks]


def _needed(values: Tensor | None, by: str) -> Tensor:
    if values is None:
        raise ValueError(f"{by} needs its uniforms or entropies; pass them")
    return values
