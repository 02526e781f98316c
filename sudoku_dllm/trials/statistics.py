"""Intervals of the study: over puzzles, over training seeds, and for curves of solve rate against forward passes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dllm_rl.decoding.evaluation import LEVEL, half_width

RESAMPLES = 2000
ROUNDING = 1e-9
"""Solve rates that differ by less are equal: the same shares, added up in another order."""

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

    def bar(self, most: float = 1.0) -> tuple[float, float]:
        """How far the interval over puzzles goes below and above the mean, within 0 and `most`."""
        return self.mean - max(self.puzzles[0], 0.0), min(self.puzzles[1], most) - self.mean


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
    half, mean = half_width(by_puzzle), float(table.mean())
    seeds = None
    if len(by_seed) > 1:
        wide = _student(len(by_seed)) * float(stats.sem(by_seed))
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

    def points(self) -> tuple[Floats, Floats]:
        """Mean passes and solve rate of each setting, float64 `(P,)` each, by rising passes."""
        passes, solved = self.passes.mean(1), self.solved.mean(1)
        order = np.argsort(passes, kind="stable")
        return passes[order], solved[order]


@dataclass(frozen=True)
class PassesNeeded:
    """The forward passes in which a model reaches a solve rate, with two 95 % intervals, each for another chance.

    Attributes:
        passes: Their mean over puzzles; infinite where no setting reaches the rate.
        puzzles: Percentile bootstrap over puzzles: other puzzles, the same trainings. Ends may be infinite.
        seeds: Student's t interval of the jackknife over seeds: other trainings, the same puzzles. None with one seed,
            and where the passes, or those without one of the seeds, are infinite.
        cheapest: Mean passes of the setting that needs fewest. Passes as few are a bound from above: a setting beyond
            the sweep may need fewer.
    """

    passes: float
    puzzles: tuple[float, float]
    seeds: tuple[float, float] | None
    cheapest: float


def fewest_passes(curve: tuple[Floats, Floats], rate: float) -> float:
    """The fewest forward passes in which a curve reaches a solve rate; infinite where it does not.

    The curve is that of the settings which no cheaper one equals or beats (the Pareto front), linear between
    neighbours. Where its first setting reaches the rate, the passes are that setting's.

    Args:
        curve: Passes, rising, and solve rates, `(P,)` each, from `Sweep.points`.
        rate: The solve rate to reach.
    """
    passes, solved = curve
    best_before = np.maximum.accumulate(np.concatenate([[-np.inf], solved[:-1]]))
    # The front: a setting that a cheaper one equals is of no use to anybody.
    front = solved > best_before
    passes, solved = passes[front], solved[front]
    reached = np.flatnonzero(solved >= rate - ROUNDING)
    if not len(reached):
        return math.inf
    first = reached[0]
    if first == 0:
        return float(passes[0])
    share = (rate - solved[first - 1]) / (solved[first] - solved[first - 1])
    return float(passes[first - 1] + min(share, 1.0) * (passes[first] - passes[first - 1]))


def passes_needed(sweeps: Sequence[Sweep], reference: Floats) -> PassesNeeded:
    """The forward passes in which a model solves as many puzzles as a reference does (`fewest_passes`).

    Args:
        sweeps: The model's, one for each of its S seeds, with the same P settings.
        reference: float64 `(S, N)`, the outcome of the reference for each seed on each puzzle; its mean is the rate to
            reach, and it is resampled together with the sweeps. A constant table asks for a fixed rate.

    Raises:
        ValueError: There is no sweep, or the seeds, settings or puzzles of sweeps and reference differ.
    """
    shapes = {sweep.passes.shape for sweep in sweeps}
    if len(shapes) != 1 or reference.shape != (len(sweeps), next(iter(shapes))[1]):
        raise ValueError(
            f"{len(sweeps)} sweeps of shapes {sorted(shapes)} and a reference of shape {reference.shape} must be of "
            "the same seeds and puzzles"
        )
    passes, solved = (np.stack([getattr(sweep, name) for sweep in sweeps]) for name in ("passes", "solved"))

    def needed(seeds: NDArray[np.int64]) -> float:
        mean = Sweep(passes[seeds].mean(0), solved[seeds].mean(0))
        return fewest_passes(mean.points(), float(reference[seeds].mean()))

    everyone = np.arange(len(sweeps))
    found = needed(everyone)

    # Puzzles drawn anew: how often each is drawn, then the means of all settings and of the reference.
    count = reference.shape[1]
    weights = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), RESAMPLES) / count  # (B, N)
    columns = (table.mean(0) @ weights.T for table in (passes, solved, reference[:, None]))  # (P, B), (P, B), (1, B)
    drawn = []
    for at, rates, (rate,) in zip(*(column.T for column in columns), strict=True):
        order = np.argsort(at, kind="stable")
        drawn.append(fewest_passes((at[order], rates[order]), rate))
    low, high = np.quantile(drawn, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], method="nearest")

    # Each seed left out in turn; for a mean this is the interval of `estimate`.
    seeds = None
    if len(sweeps) > 1:
        without = np.array([needed(np.delete(everyone, one)) for one in everyone])
        if math.isfinite(found) and np.isfinite(without).all():
            wide = _student(len(sweeps)) * float(np.std(without)) * math.sqrt(len(sweeps) - 1)
            seeds = (found - wide, found + wide)
    return PassesNeeded(found, (float(low), float(high)), seeds, float(passes.mean((0, 2)).min()))


def _student(count: int) -> float:
    """Half the width, in standard errors, of the interval of the mean of so many values."""
    return float(stats.t.ppf(0.5 + LEVEL / 2, count - 1))
