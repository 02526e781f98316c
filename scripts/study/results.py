"""The results of a study's regime, and the comparisons between its arms."""

from collections.abc import Mapping, Sequence
from typing import Any

from sudoku_dllm.trials import Records
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.results import Results


class RegimeResults(Results):
    """What is there of a regime, a base and the arms that start from it; the base first, with one seed.

    Args:
        records: Folder of the study.
        name: Name of the regime.
        arms: Its arms in their order.
        reference: The arm or base that all others are compared with, and whose solve rate at one token a step the table
            of passes asks for; by default the first arm.
        told: Other pairs that are compared, the first minus the second.
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
        reference: str = "",
        told: Sequence[tuple[str, str]] = (),
        remarks: str = "",
    ) -> None:
        super().__init__(records, [BASE, *arms], within=name)
        self.name, self.reference, self.told, self.remarks = name, reference or arms[0], told, remarks
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

    def pairs(self) -> list[tuple[str, str]]:
        """The comparisons between arms: each with the reference, and those that are told beside."""
        others = [arm for arm in self.arms if arm not in (BASE, self.reference)]
        return [*((arm, self.reference) for arm in others), *self.told]


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
