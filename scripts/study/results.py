"""The results of a study's regime, and the comparisons between its arms."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sudoku_dllm.trials import Records, sweep_difference
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.results import Results

Range = tuple[float, float]


class RegimeResults(Results):
    """What is there of a regime, a base and the arms that start from it; the base first, with one seed.

    Args:
        records: Folder of the study.
        name: Name of the regime.
        arms: Its arms in their order.
        controls: Arms that the other arms are compared with.
        reference: The arm or base that the first table compares all others with, and whose solve rate at one token a
            step the table of passes asks for; by default the first control.
        remarks: Text for the report, in Markdown.

    Attributes:
        sets: The result of each set of puzzles on which the arms are judged.
        ways: The settings of each way to decode, by its name in tables; the first one's order is reported.
    """

    def __init__(
        self,
        records: Records,
        name: str,
        arms: Sequence[str],
        controls: Sequence[str],
        reference: str = "",
        remarks: str = "",
    ) -> None:
        super().__init__(records, [BASE, *arms], within=name)
        self.name, self.controls, self.reference, self.remarks = name, controls, reference or controls[0], remarks
        first = self.each(self.arms[-1])[0]
        self.sets: Mapping[str, Any] = first["sets"]
        labels = self.sets["test"]["decodings"]
        self.ways: dict[str, Mapping[str, Any]] = dict(zip(labels, first["settings"]["decodings"], strict=True))

    @property
    def room(self) -> dict[str, str]:
        """Ways to decode the base by margin, and by the oracle of definite cells with the same limits."""
        labels = self.each(BASE)[0]["sets"]["test"]["decodings"]
        return {one.replace("definite_first", "margin"): one for one in labels if one.startswith("definite_first")}

    @property
    def sweeps(self) -> dict[str, list[str]]:
        """Ways to decode of one strategy that differ in one limit of their steps alone; at least two of each."""
        found: dict[str, list[str]] = {}
        for label, how in self.ways.items():
            found.setdefault(f"{how['strategy']} by {_limit(how)}", []).append(label)
        return {name: each for name, each in found.items() if len(each) > 1}

    @property
    def by_tokens(self) -> dict[str, int]:
        """Tokens per step of the ways by margin that have no other limit."""
        alike = {label: how for label, how in self.ways.items() if how["strategy"] == "margin"}
        return {label: how["tokens_per_step"] for label, how in alike.items() if _limit(how) == "tokens per step"}

    def figure(self, arm: str, puzzles: str, label: str, name: str) -> float:
        """A figure of the summary, averaged over seeds; NaN where it is missing in all."""
        return self.mean(arm, "sets", puzzles, "decodings", label, name)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The comparisons: each arm with each control, the reference and the base; each control with the latter two.

        No pair comes twice, so a control is not compared with a reference that is no control itself.
        """
        bases = [arm for arm in self.arms if arm == BASE]
        controls = [arm for arm in self.arms if arm in self.controls]
        for arm in self.arms:
            others = [one for one in controls if one == self.reference] if arm in controls else controls
            for other in dict.fromkeys([*others, *([self.reference] * (arm not in controls)), *bases]):
                if BASE != arm != other:
                    yield arm, other

    def sweep_difference(
        self, first: str, second: str, puzzles: str, labels: Sequence[str]
    ) -> tuple[Range, float, Range] | None:
        """The forward passes that both sweeps reach, if any, and their difference over these with its interval."""
        seeds = self.seeds(first, second)
        one, other = (self.sweep(arm, ways(puzzles, labels), seeds) for arm in (first, second))
        common = one.common_range(other)
        return None if common is None else (common, *sweep_difference(one, other, common))


def solved(puzzles: str, label: str) -> str:
    """The outcome that says what is solved."""
    return f"{puzzles}/{label}/solved"


def order(puzzles: str, label: str) -> tuple[str, str]:
    """The outcomes whose ratio is `greedy_definite`, over all live states together."""
    return f"{puzzles}/{label}/greedy_definite", f"{puzzles}/{label}/greedy_cells"


def ways(puzzles: str, labels: Sequence[str]) -> list[str]:
    """What stands before the outcomes of several ways to decode."""
    return [f"{puzzles}/{label}" for label in labels]


def _limit(how: Mapping[str, Any]) -> str:
    if how["threshold"] is not None:
        return "threshold"
    return "tokens per step" if how["entropy_bound"] is None else "entropy bound"
