"""The results of a study's regime, and the comparisons between its arms."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from scripts.study.config import BASE, Decoding, Regime, StudyConfigError
from sudoku_dllm.trials import Records, job_name, sweep_difference
from sudoku_dllm.trials.results import Results
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


class RegimeResults(Results):
    """What is there of a regime; the base first, with one seed.

    Args:
        records: Folder of the study.
        name: Name of the regime.
        regime: Configuration of the regime.

    Raises:
        StudyConfigError: A result was made with other settings.
    """

    def __init__(self, records: Records, name: str, regime: Regime) -> None:
        arms = dict.fromkeys(arm for arm, _ in jobs(regime))
        super().__init__(records, arms, within=name, seeds=regime.seeds)
        self.name, self.regime = name, regime
        for job in self.results:
            checked_result(records, job_name(name, job.arm, seed=job.seed), regime.settings(job.arm))

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
        hard = copy(self)
        hard.outcomes = {
            job: {key: values[rows] for key, values in found.items() if key.startswith("test/")}
            for job, found in self.outcomes.items()
        }
        return hard, int(rounds[rows].min())

    def figure(self, arm: str, puzzles: str, label: str, name: str) -> float:
        """A figure of the summary, averaged over seeds; NaN where it is missing in all."""
        return self.mean(arm, "sets", puzzles, "decodings", label, name)

    @property
    def reference(self) -> str | None:
        """The arm that the others are compared with; None without a result of it."""
        name = self.regime.reference_arm
        return name if name in self.arms else None

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The comparisons: each arm with each control, the reference and the base; each control with the latter two.

        No pair comes twice, so a control is not compared with a reference that is no control itself.
        """
        trained = [arm for arm in self.arms if arm != BASE]
        bases = [arm for arm in self.arms if arm == BASE]
        controls = [arm for arm in trained if self.regime.arms[arm].control]
        references = [arm for arm in trained if arm == self.reference]
        for arm in trained:
            others = [one for one in references if one in controls] if arm in controls else [*controls, *references]
            for other in dict.fromkeys([*others, *bases]):
                if other != arm and self.seeds(arm, other):
                    yield arm, other

    def sweep_differences(
        self, first: str, second: str, puzzles: str, decodings: list[Decoding]
    ) -> Iterator[tuple[Passes, tuple[float, tuple[float, float]] | None]]:
        """Differences at equal forward passes: over the range in common, then at the regime's own numbers of passes.

        Yields:
            The passes (None for the range if there is none in common), and the difference with its interval, or None
            where the sweeps do not both reach the passes.
        """
        seeds = self.seeds(first, second)
        one, other = (self.sweep(arm, ways(puzzles, decodings), seeds) for arm in (first, second))
        common = one.common_range(other)
        yield common, sweep_difference(one, other, common) if common else None
        for passes in self.regime.passes:
            reached = common is not None and common[0] <= passes <= common[1]
            yield passes, sweep_difference(one, other, passes) if reached else None


def solved(puzzles: str, label: str) -> str:
    """The outcome that says what is solved."""
    return f"{puzzles}/{label}/solved"


def order(puzzles: str, label: str) -> tuple[str, str]:
    """The outcomes whose ratio is `greedy_definite`, over all live states together."""
    return f"{puzzles}/{label}/greedy_definite", f"{puzzles}/{label}/greedy_cells"


def ways(puzzles: str, decodings: Sequence[Decoding]) -> list[str]:
    """What stands before the outcomes of several decodings."""
    return [f"{puzzles}/{how.label}" for how in decodings]


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
