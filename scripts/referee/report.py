"""The tables of comparisons of objectives: what held-out problems each answers rightly, its leads, and its cost.

python -m scripts.referee.report runs/referee_boards runs/referee_countdown [--tried runs/rates] [--overview]
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_rl.training import parse, user_errors
from scripts.referee.compare import Referee
from scripts.referee.published import COMPARED
from sudoku_dllm.trials import Records, estimate
from sudoku_dllm.trials.trial_report import START
from sudoku_dllm.trials.words import bold, lead, markdown_table, signed

RIGHT = "right/"
TOLD = {"sampled": "right when sampled"} | COMPARED
"""What else is told of answers, by name."""

REWARDS = {"final": "a right answer is rewarded", "passes": "passes before an error are rewarded"}


@dataclass(frozen=True)
class Found:
    """What a method's models are worth, of S seeds on N held-out problems.

    Attributes:
        right: bool `(S, N)` for each number of positions a pass.
        compared: What else is told of answers, float64 `(S, N)` by name, at the number that was trained.
        results: What each training wrote.
    """

    right: dict[int, NDArray[np.bool_]]
    compared: dict[str, NDArray[np.float64]]
    results: list[dict[str, Any]]

    @property
    def tokens_per_step(self) -> int:
        """The number of positions a pass that was trained."""
        return int(self.results[0]["settings"]["tokens_per_step"])

    @property
    def as_trained(self) -> list[NDArray[np.float64]]:
        """What is right at that number, greedily and, if it was judged, sampled, each float64 `(S, N)`."""
        sampled = [self.compared["sampled"]] if "sampled" in self.compared else []
        return [self.right[self.tokens_per_step].astype(float), *sampled]

    @property
    def milliseconds(self) -> float:
        """CPU milliseconds of an update."""
        spent, updates = (sum(one[name] for one in self.results) for name in ("cpu_seconds", "updates"))
        return 1000 * spent / updates


def read(records: Records) -> dict[str, Found]:
    """What was found of each method, the start first.

    Raises:
        FileNotFoundError: There is no result.
        ValueError: Methods were not trained with the same seeds.
    """
    results: dict[str, dict[int, tuple[str, dict[str, Any]]]] = {}
    for job, one in records.results().items():
        results.setdefault(one["arm"], {})[one["seed"]] = job, one
    if START not in results:
        raise FileNotFoundError(f"{records.folder} holds no results; give the folder of a finished run")
    found = {}
    for arm in [START, *(name for name in Referee.ARMS if name in results)]:
        seeds, of_start = sorted(results[arm]), sorted(results[START])
        if seeds != of_start:
            raise ValueError(f"{arm} has seeds {seeds}, the start {of_start}; run the rest")
        of_seeds = [results[arm][seed] for seed in seeds]
        outcomes = [records.outcomes(job) for job, _ in of_seeds]
        numbers = sorted(int(name.removeprefix(RIGHT)) for name in outcomes[0] if name.startswith(RIGHT))
        right = {k: np.array([one[f"{RIGHT}{k}"] for one in outcomes], dtype=bool) for k in numbers}
        sampled = of_seeds[0][1]["settings"]["tokens_per_step"]
        compared = {
            name: np.array([one[f"{name}/{sampled}"] for one in outcomes], dtype=float)
            for name in TOLD
            if f"{name}/{sampled}" in outcomes[0]
        }
        found[arm] = Found(right, compared, [one for _, one in of_seeds])
    return found


def table(records: Records) -> str:
    """A line for each method in Markdown, the best first; leads have intervals over problems and over seeds."""
    found = read(records)
    sampled = found[START].tokens_per_step
    against = [other for other in (START, Referee.CONTROL) if other in found]
    order = [START, *sorted((arm for arm in found if arm != START), key=lambda arm: -found[arm].right[sampled].mean())]
    head = ["", *(f"right % at {k}" for k in found[START].right)]
    head += [*(f"{TOLD[name]}, % at {sampled}" for name in found[START].compared), f"each seed at {sampled}"]
    head += [f"at {sampled}, minus {Referee.ARMS.get(other, other)}" for other in against]
    head += ["sampled, minus start"] * ("sampled" in found[START].compared)
    rows = []
    for arm in order:
        one = found[arm]
        ours = one.right[sampled].astype(float)
        row = [Referee.ARMS.get(arm, arm), *(f"{100 * right.mean():.1f}" for right in one.right.values())]
        row += [f"{100 * values.mean():.1f}" for values in one.compared.values()]
        row.append(", ".join(f"{100 * share:.1f}" for share in ours.mean(1)))
        row += ["" if arm == other else lead(estimate(ours - found[other].right[sampled])) for other in against]
        if (drawn := one.compared.get("sampled")) is not None:
            row.append("" if arm == START else lead(estimate(drawn - found[START].compared["sampled"])))
        updates = np.mean([result["updates"] for result in one.results])
        rows.append([*row, *(["", ""] if arm == START else [f"{updates:,.0f}", f"{one.milliseconds:,.0f}"])])
    return markdown_table([*head, "updates", "CPU ms an update"], rows)


def overview(runs: Sequence[Path]) -> str:
    """Methods × runs in Markdown: what the start answers rightly, in %, and the lead of each method over it, in points.

    Both greedily and, where that was judged, sampled; leads are bold where neither interval holds 0.
    """
    columns = [read(Records(folder)) for folder in runs]
    rows = []
    for arm in (START, *Referee.ARMS):
        row = [Referee.ARMS.get(arm, arm)]
        for found in columns:
            both = zip(found[arm].as_trained, found[START].as_trained, strict=True) if arm in found else ()
            leads = [(one, estimate(one - of)) for one, of in both]
            cells = [f"{100 * one.mean():.1f}" if arm == START else bold(signed(gap.mean), gap) for one, gap in leads]
            row.append(" / ".join(cells))
        rows.append(row)
    return markdown_table(["", *(folder.name for folder in runs)], [row for row in rows if any(row[1:])])


def tried(records: Records) -> str:
    """What each method has with each rate that was tried, in Markdown: right % at one position and as it was trained.

    Args:
        records: One training for each method and rate, whose settings name the rates.
    """
    cells: dict[str, dict[float, str]] = {}
    for job, one in records.results().items():
        rates = dict(word.split("=") for word in one["settings"]["rates"])
        if one["arm"] in rates:
            k, outcomes = one["settings"]["tokens_per_step"], records.outcomes(job)
            shares = [f"{100 * outcomes[f'{RIGHT}{number}'].mean():.1f}" for number in (1, k)]
            cells.setdefault(one["arm"], {})[float(rates[one["arm"]])] = " / ".join(shares)
    columns = sorted({rate for row in cells.values() for rate in row})
    rows = [
        [Referee.ARMS[arm], *(cells[arm].get(rate, "") for rate in columns)] for arm in Referee.ARMS if arm in cells
    ]
    titles = [f"{rate:.1e}".replace(".0e", "e").replace("e-0", "e-") for rate in columns]
    return markdown_table(["", *titles], rows)


def pages(runs: Sequence[Path], rates: Sequence[Path] = ()) -> str:
    """A section for each run: what it was run with, and its table; and one for the rates that were tried in each."""
    sections = []
    for records in map(Records, runs):
        told = table(records)
        settings = next(iter(records.results().values()))["settings"]
        about = [f"{settings['cpu_seconds']:g} CPU s", f"{settings['tokens_per_step']} a pass"]
        about.append(REWARDS[settings["reward"]])
        about += ["with a divergence from the start"] * settings.get("divergence", False)
        sections.append((records.folder.name, ", ".join(about), told))
    for records in map(Records, rates):
        sections.append((records.folder.name, "Right % at one position a pass / as trained, by rate", tried(records)))
    return "\n".join(f"## {name}\n\n{about}:\n\n{told}" for name, about, told in sections)


@dataclass
class Arguments:
    """The runs."""

    runs: list[Path] = field(metadata={"help": "Run folders of comparisons, or results packed from them."})
    overview: bool = field(default=False, metadata={"help": "One table of all runs: the leads of methods in each."})
    tried: list[Path] = field(default_factory=list, metadata={"help": "Folders of runs with other rates, to be told."})

    def __post_init__(self) -> None:
        if self.overview and self.tried:
            raise ValueError("rates that were tried have no place in the overview; leave out --tried or --overview")


def main() -> None:
    """The command line."""
    (chosen,) = parse(Arguments, description=__doc__, places=("runs",))
    with user_errors(OSError, ValueError):
        print(overview(chosen.runs) if chosen.overview else pages(chosen.runs, chosen.tried), end="")


if __name__ == "__main__":
    main()
