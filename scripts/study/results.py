"""The results of a study's regime, and the comparisons between its arms."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.study.config import BASE, Decoding, Regime, StudyConfigError
from sudoku_dllm.trials import (
    Estimate,
    PassesNeeded,
    Records,
    Sweep,
    estimate,
    job_name,
    passes_needed,
    ratio_contributions,
    sweep_difference,
)
from sudoku_env import parse_puzzle, read_prompts
from sudoku_env.order import ladder_rounds


def checked_result(records: Records, job: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The result of a job; None if there is none yet.

    Raises:
        StudyConfigError: It was made with other settings.
    """
    result = records.result(job)
    if result is None:
        return None
    old, new = json.loads(json.dumps([result["settings"], settings], default=str))
    if changed := sorted(name for name in {*old, *new} if old.get(name) != new.get(name)):
        raise StudyConfigError(
            f"{records.folder / job} was made with other settings ({', '.join(changed)} differ); remove its folder, or "
            "give the arm or the regime another name"
        )
    return result


Passes = float | tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class RegimeResults:
    """What is there of a regime.

    Attributes:
        name: Name of the regime.
        regime: Configuration of the regime.
        results: Arm → seed → result; the base first, with one seed. Arms without a result are left out.
        outcomes: Arm → seed → "set/decoding/field" → `(N,)`.
    """

    name: str
    regime: Regime
    results: dict[str, dict[int, dict[str, Any]]]
    outcomes: dict[str, dict[int, dict[str, NDArray[Any]]]]

    @classmethod
    def load(cls, records: Records, name: str, regime: Regime) -> "RegimeResults":
        """Read what is there.

        Raises:
            StudyConfigError: A result was made with other settings.
        """
        results: dict[str, dict[int, dict[str, Any]]] = {}
        outcomes: dict[str, dict[int, dict[str, NDArray[Any]]]] = {}
        for arm, seed in jobs(regime):
            job = job_name(name, arm, seed=seed)
            result = checked_result(records, job, regime.settings(arm))
            if result is not None:
                results.setdefault(arm, {})[seed] = result
                outcomes.setdefault(arm, {})[seed] = records.outcomes(job)
        return cls(name, regime, results, outcomes)

    def hardest(self, share: float) -> tuple["RegimeResults", int]:
        """The outcomes on those test puzzles alone that have most rounds of the rule ladder, the earlier of equals.

        Returns:
            Results with these outcomes, but with summaries of all puzzles, and the rounds of the easiest puzzle left.

        Raises:
            FileNotFoundError: The file of test puzzles is gone.
        """
        boards = np.stack([parse_puzzle(prompt) for prompt in read_prompts(self.regime.test)])
        rounds = np.nanmax(ladder_rounds(boards[: self.regime.test_puzzles or None]), axis=1) + 1
        rows = np.sort(np.argsort(-rounds, kind="stable")[: round(share * len(rounds))])
        outcomes = {
            arm: {
                seed: {key: values[rows] for key, values in found.items() if key.startswith("test/")}
                for seed, found in by_seed.items()
            }
            for arm, by_seed in self.outcomes.items()
        }
        return replace(self, outcomes=outcomes), int(rounds[rows].min())

    def seeds(self, *arms: str) -> list[int]:
        """The seeds that all of these arms have; the base has any."""
        found = [set(self.results[arm]) for arm in arms if arm != BASE]
        return sorted(set.intersection(*found)) if found else [self.regime.seeds[0]]

    def table(self, arm: str, puzzles: str, label: str, field: str, seeds: list[int]) -> NDArray[np.float64]:
        """Outcomes float64 `(S, N)`: one row a seed."""
        by_seed = self.outcomes[arm]
        rows = [by_seed[self.regime.seeds[0] if arm == BASE else seed] for seed in seeds]
        return np.stack([row[f"{puzzles}/{label}/{field}"] for row in rows]).astype(float)

    def mean(self, arm: str, puzzles: str, label: str, name: str) -> float:
        """A figure of the summary, averaged over seeds; NaN where it is missing in all."""
        found = [result["sets"][puzzles]["decodings"][label][name] for result in self.results[arm].values()]
        return float(np.nanmean(found)) if np.isfinite(found).any() else float("nan")

    def solved(self, arm: str, puzzles: str, label: str) -> Estimate:
        """Solve rate of an arm."""
        return estimate(self.table(arm, puzzles, label, "solved", self.seeds(arm)))

    def difference(self, first: str, second: str, puzzles: str, labels: tuple[str, str]) -> Estimate:
        """Difference of solve rates, first - second, each arm by its own decoding; paired by puzzle and by seed."""
        seeds = self.seeds(first, second)
        one, other = (
            self.table(arm, puzzles, label, "solved", seeds) for arm, label in zip((first, second), labels, strict=True)
        )
        return estimate(one - other)

    def order_difference(self, first: str, second: str, puzzles: str, label: str) -> Estimate:
        """Difference of `greedy_definite`, first - second, over all live states together; paired likewise."""
        seeds = self.seeds(first, second)
        one, other = (
            ratio_contributions(
                *(self.table(arm, puzzles, label, field, seeds) for field in ("greedy_definite", "greedy_cells"))
            )
            for arm in (first, second)
        )
        return estimate(one - other)

    @property
    def reference(self) -> str | None:
        """The arm that the others are compared with; None without a result of it."""
        name = self.regime.reference_arm
        return name if name in self.results else None

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The comparisons: each arm with each control, the reference and the base; each control with the latter two.

        No pair comes twice, so a control is not compared with a reference that is no control itself.
        """
        trained = [arm for arm in self.results if arm != BASE]
        bases = [arm for arm in self.results if arm == BASE]
        controls = [arm for arm in trained if self.regime.arms[arm].control]
        references = [arm for arm in trained if arm == self.reference]
        for arm in trained:
            others = [one for one in references if one in controls] if arm in controls else [*controls, *references]
            for other in dict.fromkeys([*others, *bases]):
                if other != arm and self.seeds(arm, other):
                    yield arm, other

    def sweep(self, arm: str, puzzles: str, decodings: list[Decoding], seeds: list[int]) -> Sweep:
        """Outcomes of an arm over several settings, averaged over seeds."""
        passes, solved = (
            np.stack([self.table(arm, puzzles, how.label, field, seeds).mean(0) for how in decodings])
            for field in ("forward_passes", "solved")
        )
        return Sweep(passes, solved)

    def passes_needed(self, arm: str, puzzles: str, decodings: list[Decoding], target: Decoding) -> PassesNeeded | None:
        """The passes in which an arm solves what the reference does by `target`; None without a seed in common."""
        if self.reference is None or not (seeds := self.seeds(arm, self.reference)):
            return None
        reference = self.table(self.reference, puzzles, target.label, "solved", seeds)
        return passes_needed([self.sweep(arm, puzzles, decodings, [seed]) for seed in seeds], reference)

    def sweep_differences(
        self, first: str, second: str, puzzles: str, decodings: list[Decoding]
    ) -> Iterator[tuple[Passes, tuple[float, tuple[float, float]] | None]]:
        """Differences at equal forward passes: over the range in common, then at the regime's own numbers of passes.

        Yields:
            The passes (None for the range if there is none in common), and the difference with its interval, or None
            where the sweeps do not both reach the passes.
        """
        seeds = self.seeds(first, second)
        one, other = (self.sweep(arm, puzzles, decodings, seeds) for arm in (first, second))
        common = one.common_range(other)
        yield common, sweep_difference(one, other, common) if common else None
        for passes in self.regime.passes:
            reached = common is not None and common[0] <= passes <= common[1]
            yield passes, sweep_difference(one, other, passes) if reached else None


def jobs(regime: Regime) -> Iterator[tuple[str, int]]:
    """Arms with their seeds in an order in which they can run: the base, budgets of their own, then borrowed ones."""
    yield BASE, regime.seeds[0]
    for borrowed in (False, True):
        for arm, spec in regime.arms.items():
            if (spec.budget.same_as is not None) == borrowed:
                for seed in regime.seeds:
                    yield arm, seed


def sweeps(regime: Regime) -> dict[str, list[Decoding]]:
    """Decodings of one strategy that differ in one limit of their steps alone; at least two of each."""
    found: dict[str, list[Decoding]] = {}
    for how in regime.evaluation:
        temperatures = f"{how.position_temperature:g}/{how.token_temperature:g}" if how.strategy == "policy" else ""
        found.setdefault(f"{how.strategy} {temperatures} by {how.limit}".replace("  ", " "), []).append(how)
    return {name: each for name, each in found.items() if len(each) > 1}


def by_tokens(regime: Regime) -> list[Decoding]:
    """The first decoding without a threshold or a bound, and those that differ from it in tokens per step alone."""
    plain = [how for how in regime.evaluation if how.limit == "tokens per step"]
    return [how for how in plain if replace(how, tokens_per_step=1) == replace(plain[0], tokens_per_step=1)]
