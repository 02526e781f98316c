"""What came of a comparison, and how its arms differ.

The outcomes of an arm are a table (S, N), a row for each seed and a column for each problem. **One rule pairs two
arms**, and every interval rests on it: their tables are subtracted problem by problem and seed by seed, of the seeds
that both have. The base, which is not trained, has one row, which stands for every seed of the other.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.record import Records, arm_and_seed
from sudoku_dllm.trials.statistics import Estimate, PassesNeeded, Sweep, estimate, passes_needed, ratio_contributions

Name = str | tuple[str, str]
"""An outcome, or two whose ratio is pooled over all problems: the numerators and the denominators."""
SWEPT = ("forward_passes", "solved")


class Results:
    """The results of arms, read from one folder, or from several with other seeds or arms.

    Args:
        records: The folders.
        arms: The arms in their order; those that have no result are left out.
        within: What stands before the arms in the folder.
        seeds: The seeds in their order; all that are there by default. The base is read once, with the first.

    Attributes:
        arms: The arms that are there.
        results: The results by their jobs, the base first, then seed by seed.
        outcomes: The outcomes of each job by name, `(N,)` each.
        missing: Arms and seeds without a result, of these arms and the seeds that are given or there.

    Raises:
        ValueError: Two folders have different results of a job.
    """

    def __init__(
        self,
        records: Records | Sequence[Records],
        arms: Iterable[str],
        *,
        within: str = "",
        seeds: Sequence[int] | None = None,
    ) -> None:
        arms, start, there = list(arms), f"{within}/" if within else "", dict[Job, tuple[Records, str]]()
        for one in [records] if isinstance(records, Records) else records:
            for name in one.jobs():
                path, seed = arm_and_seed(name)
                job = Job(path.removeprefix(start), seed)
                if not path.startswith(start) or job.arm not in arms or seed not in (seeds or [seed]):
                    continue
                first, known = there.setdefault(job, (one, name))
                if first is not one and not _same(first, known, one, name):
                    raise ValueError(
                        f"{one.folder} holds another result of {job.arm!r} with seed {seed} than {first.folder}; "
                        "leave one of them out"
                    )
        self.arms = [arm for arm in arms if any(job.arm == arm for job in there)]
        # The base is not trained, so that one row of it stands for all seeds.
        jobs = [job for seed in seeds or sorted({job.seed for job in there}) if (job := Job(BASE, seed)) in there][:1]
        trained = seeds or sorted({job.seed for job in there if job.arm != BASE})
        jobs += [Job(arm, seed) for seed in trained for arm in self.arms if arm != BASE]
        self.missing = [job for job in jobs if job not in there]
        read = {job: there[job] for job in jobs if job in there}
        self.results: dict[Job, dict[str, Any]] = {job: one.result(name) or {} for job, (one, name) in read.items()}
        self.outcomes = {job: one.outcomes(name) for job, (one, name) in read.items()}

    def whole(self) -> "Results":
        """These results, of every arm with every seed; a ValueError where some are missing."""
        if self.missing:
            words = ", ".join(f"{job.arm} with seed {job.seed}" for job in self.missing)
            raise ValueError(f"there is no result of {words}; run those first")
        return self

    def seeds(self, *arms: str) -> list[int]:
        """The seeds that all of these arms have; the base has any, and alone its own."""
        asked = [arm for arm in arms if arm != BASE] or [BASE]
        own = [[job.seed for job in self.results if job.arm == arm] for arm in asked]
        return [seed for seed in own[0] if all(seed in others for others in own)]

    def each(self, arm: str) -> list[dict[str, Any]]:
        """The results of an arm, one a seed."""
        return [result for job, result in self.results.items() if job.arm == arm]

    def mean(self, arm: str, *path: str) -> float:
        """A figure of an arm's results, which lies at a path of names, mean over seeds; NaN where none is known."""
        found = np.array([reduce(getitem, path, result) for result in self.each(arm)], float)
        return float(np.nanmean(found)) if np.isfinite(found).any() else float("nan")

    def spent(self, arm: str, *, use_cpu: bool) -> float:
        """Seconds that an arm trained for, mean over seeds: of the CPU, or of the clock on an accelerator."""
        return self.mean(arm, "cpu_seconds" if use_cpu else "seconds")

    def column(self, arm: str, name: Name, seeds: Sequence[int] | None = None) -> NDArray[np.float64]:
        """Outcomes of an arm, float64 `(S, N)`.

        Args:
            arm: The arm.
            name: The outcome; of two, each problem's part in their ratio (`ratio_contributions`).
            seeds: The seeds of the rows, for each of which the base has the same one; by default the arm's own.
        """
        if isinstance(name, tuple):
            return ratio_contributions(*(self.column(arm, one, seeds) for one in name))
        rows = {job.seed: each for job, each in self.outcomes.items() if job.arm == arm}
        if arm == BASE and seeds is not None:
            rows = dict.fromkeys(seeds, *rows.values())
        return np.stack([rows[seed][name] for seed in (rows if seeds is None else seeds)]).astype(float)

    def best(self, name: str) -> str:
        """The trained arm with the highest mean of an outcome; the base where none is trained."""
        return max(self.arms, key=lambda arm: (arm != BASE, self.column(arm, name).mean()))

    def rate(self, arm: str, name: Name) -> Estimate:
        """The mean of an outcome with its intervals."""
        return estimate(self.column(arm, name))

    def difference(self, first: str, second: str, name: Name) -> Estimate:
        """First minus second by the rule above, of an outcome."""
        seeds = self.seeds(first, second)
        return estimate(self.column(first, name, seeds) - self.column(second, name, seeds))

    def sweep(
        self, arm: str, ways: Sequence[str], seeds: Sequence[int] | None = None, names: tuple[str, str] = SWEPT
    ) -> Sweep:
        """An arm decoded in P ways, mean over seeds, by default the arm's own.

        The ways stand before the names of the outcomes, which hold the passes and what is solved.
        """
        return Sweep(*(np.stack([self.column(arm, f"{way}/{name}", seeds).mean(0) for way in ways]) for name in names))

    def passes_needed(
        self, arm: str, ways: Sequence[str], goal: float | tuple[str, str], names: tuple[str, str] = SWEPT
    ) -> PassesNeeded | None:
        """The passes in which an arm solves a share, or what another arm does; None without a seed that both have.

        The goal is the share, or the other arm and the outcome of it; ways and names are those of `sweep`.
        """
        seeds = self.seeds(arm) if isinstance(goal, float) else self.seeds(arm, goal[0])
        if not seeds:
            return None
        sweeps = [self.sweep(arm, ways, [seed], names) for seed in seeds]
        if isinstance(goal, float):
            return passes_needed(sweeps, np.full((len(seeds), sweeps[0].solved.shape[1]), goal))
        return passes_needed(sweeps, self.column(*goal, seeds))


def _same(first: Records, known: str, second: Records, name: str) -> bool:
    one, other = first.outcomes(known), second.outcomes(name)
    return (
        first.result(known) == second.result(name)
        and one.keys() == other.keys()
        and all(np.array_equal(one[key].astype(float), other[key].astype(float), equal_nan=True) for key in one)
    )
