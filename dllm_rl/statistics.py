"""Intervals of the study: over puzzles, over training seeds, and for curves of solve rate against forward passes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.95
RESAMPLES = 2000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean over S seeds and N puzzles with two 95 % intervals, each for another source of chance.

    Attributes:
        mean: Over all seeds and puzzles.
        puzzles: Normal interval over puzzles, from each puzzle's mean over seeds: other puzzles, the same trainings.
        seeds: Student's t interval over seeds, from each seed's mean over puzzles: other trainings, the same puzzles.
            None with one seed.
        per_seed: The mean of each seed.
    """

    mean: float
    puzzles: tuple[float, float]
    seeds: tuple[float, float] | None
    per_seed: tuple[float, ...]

    @property
    def excludes_zero(self) -> bool:
        """Whether both intervals lie on one side of zero; false with one seed."""
        return self.seeds is not None and all(low > 0 or high < 0 for low, high in (self.puzzles, self.seeds))


def estimate(values: NDArray[np.floating | np.bool_]) -> Estimate:
    """Mean and intervals of outcomes; of their difference for a paired comparison.

    Args:
        values: `(S, N)`, the outcome of each seed on each puzzle. For two models pass `first - second`, as floats.

    Raises:
        ValueError: The values are no table of at least one seed and two puzzles.
    """
    table = np.asarray(values, float)
    if table.ndim != 2 or len(table) < 1 or table.shape[1] < 2:
        raise ValueError(f"values of shape {table.shape} must be (seeds, puzzles) with at least 1 seed and 2 puzzles")
    by_puzzle, by_seed = table.mean(0), table.mean(1)
    half = float(stats.norm.ppf(0.5 + LEVEL / 2) * stats.sem(by_puzzle))
    mean = float(table.mean())
    seeds = None
    if len(by_seed) > 1:
        wide = float(stats.t.ppf(0.5 + LEVEL / 2, len(by_seed) - 1) * stats.sem(by_seed))
        seeds = (mean - wide, mean + wide)
    return Estimate(mean, (mean - half, mean + half), seeds, tuple(by_seed.tolist()))


def ratio_contributions(numerators: NDArray[Any], denominators: NDArray[Any]) -> Floats:
    """Each puzzle's part in a pooled ratio r = Σ numerators / Σ denominators, for use with `estimate`.

    The values r + (n_i − r d_i) / mean(d) have mean r, and their spread is that of r to first order (the delta method),
    so puzzles weigh as their denominators do.

    Args:
        numerators: `(…, N)`, e.g. a puzzle's states whose greedy position is definite.
        denominators: `(…, N)`, e.g. its states whose greedy position lies in the map.

    Returns:
        float64 `(…, N)`; NaN throughout a row whose denominators are all 0.
    """
    total = denominators.sum(-1, keepdims=True)
    nothing = np.full(total.shape, np.nan)
    ratio = np.divide(numerators.sum(-1, keepdims=True), total, out=nothing, where=total > 0)
    mean = np.where(total > 0, total / denominators.shape[-1], np.nan)
    return ratio + (numerators - ratio * denominators) / mean


@dataclass(frozen=True, eq=False)
class Sweep:
    """N puzzles decoded at each of P settings that trade forward passes for solved puzzles.

    Attributes:
        passes: float64 `(P, N)`, forward passes; with several seeds, their mean.
        solved: float64 `(P, N)`, 1 where solved, 0 where not; with several seeds, their mean.

    Raises:
        ValueError: The tables are no `(P, N)` of the same shape with at least two settings.
    """

    passes: Floats
    solved: Floats

    def __post_init__(self) -> None:
        if self.passes.ndim != 2 or self.passes.shape != self.solved.shape or len(self.passes) < 2:
            raise ValueError(
                f"passes {self.passes.shape} and solved {self.solved.shape} must be of one shape (settings, puzzles) "
                "with at least 2 settings"
            )

    def points(self, puzzles: NDArray[np.int64] | None = None) -> tuple[Floats, Floats]:
        """Mean passes and solve rate of each setting, float64 `(P,)` each, by rising passes.

        Args:
            puzzles: int64 `(N,)`, the puzzles to average over, e.g. a resample; None is all.
        """
        columns = slice(None) if puzzles is None else puzzles
        passes, solved = self.passes[:, columns].mean(1), self.solved[:, columns].mean(1)
        order = np.argsort(passes, kind="stable")
        return passes[order], solved[order]

    def common_range(self, other: "Sweep") -> tuple[float, float] | None:
        """The range of mean passes that both sweeps cover; None if there is none."""
        ranges = [sweep.points()[0] for sweep in (self, other)]
        low, high = max(float(r[0]) for r in ranges), min(float(r[-1]) for r in ranges)
        return (low, high) if low < high else None


def solve_rate_at(curve: tuple[Floats, Floats], passes: float | tuple[float, float]) -> float:
    """Solve rate of a curve at a number of forward passes, or its mean over a range of them.

    The curve is linear between its points and constant beyond its ends; the mean is the area under it over the width.

    Args:
        curve: Passes, rising, and solve rates, `(P,)` each, from `Sweep.points`.
        passes: The number, or the two ends of the range.
    """
    if not isinstance(passes, tuple):
        return float(np.interp(passes, *curve))
    low, high = passes
    inside = curve[0][(curve[0] > low) & (curve[0] < high)]
    knots = np.concatenate([[low], inside, [high]])
    return float(np.trapezoid(np.interp(knots, *curve), knots) / (high - low))


def sweep_difference(
    first: Sweep, second: Sweep, passes: float | tuple[float, float], *, seed: int = 0
) -> tuple[float, tuple[float, float]]:
    """Difference of solve rates at equal forward passes, first - second, with its 95 % interval over puzzles.

    Args:
        first: The one model.
        second: The other model, on the same puzzles.
        passes: Where to compare: at a number of passes, or on average over a range (`Sweep.common_range`).
        seed: Random seed of the bootstrap.

    Returns:
        The difference and its percentile bootstrap interval: puzzles are resampled for both models together and both
        curves, mean passes included, are computed anew.

    Raises:
        ValueError: The sweeps cover different numbers of puzzles, or not the passes that are asked for.
    """
    count = first.passes.shape[1]
    if count != second.passes.shape[1]:
        raise ValueError(f"sweeps over {count} and {second.passes.shape[1]} puzzles cannot be paired")
    common = first.common_range(second)
    if common is None or not all(common[0] <= end <= common[1] for end in np.atleast_1d(passes)):
        raise ValueError(f"passes={passes} lie outside the range {common} that both sweeps cover; add settings")

    def difference(puzzles: NDArray[Any]) -> float:
        return solve_rate_at(first.points(puzzles), passes) - solve_rate_at(second.points(puzzles), passes)

    everyone = np.arange(count)
    found = stats.bootstrap(
        (everyone,),
        difference,
        vectorized=False,
        n_resamples=RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return difference(everyone), (float(found.low), float(found.high))
