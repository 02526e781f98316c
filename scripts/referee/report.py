"""The tables of comparisons of objectives: what held-out problems each answers rightly, its leads, and its cost.

python -m scripts.referee.report runs/referee_boards runs/referee_longer [--tried runs/rates] [--overview]
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from llm_rl.core._options import option
from llm_rl.training import parse, user_errors
from scripts.referee.compare import Boards
from sudoku_dllm.trials.record import Records
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.trial_report import START
from sudoku_dllm.trials.words import bold, lead, markdown_table, percent, signed

RIGHT = "right/"
TOLD = {"sampled": "right when sampled", "theirs": "their grid", "blanks": "blanks as in theirs"}
"""What else is told of answers, by name; the last two of boards whose authors have a key."""

REWARDS = {"final": "a right answer is rewarded", "passes": "passes before an error are rewarded"}


class Found(Results):
    """What methods are worth, the start first.

    Args:
        records: Folder of a comparison.

    Attributes:
        trained: The number of positions a pass that was trained.
        right: Numbers of positions a pass, and the outcome that says what is right.
        told: What else is told of answers, by name, and its outcome at the number that was trained.

    Raises:
        FileNotFoundError: There is no result.
        ValueError: Methods were not trained with the same seeds.
    """

    def __init__(self, records: Records) -> None:
        super().__init__(records, [START, *Boards.ARMS])
        if START not in self.arms:
            raise FileNotFoundError(f"{records.folder} holds no results; give the folder of a finished run")
        self.whole()
        self.trained = int(self.each(START)[0]["settings"]["tokens_per_step"])
        names = next(iter(self.outcomes.values()))
        numbers = sorted(int(name.removeprefix(RIGHT)) for name in names if name.startswith(RIGHT))
        self.right = {k: f"{RIGHT}{k}" for k in numbers}
        self.told = {name: at for name in TOLD if (at := f"{name}/{self.trained}") in names}

    @property
    def as_trained(self) -> list[str]:
        """What is right at the number that was trained, greedily and, if it was judged, sampled."""
        return [self.right[self.trained], *(at for name, at in self.told.items() if name == "sampled")]


def table(records: Records) -> str:
    """A line for each method in Markdown, the best first; leads have intervals over problems and over seeds.

    Args:
        records: Folder of a comparison.
    """
    found = Found(records)
    trained, best, drawn = found.trained, found.right[found.trained], found.told.get("sampled")
    shown = {f"right % at {k}": name for k, name in found.right.items()}
    shown |= {f"{TOLD[name]}, % at {trained}": at for name, at in found.told.items()}
    rows = []
    for arm in [START, *sorted(found.arms[1:], key=lambda arm: -found.column(arm, best).mean())]:
        row = {"": Boards.ARMS.get(arm, arm)}
        row |= {title: percent(found.column(arm, name).mean()) for title, name in shown.items()}
        row[f"at {trained}, minus start"] = "" if arm == START else lead(found.difference(arm, START, best))
        if drawn:
            row["sampled, minus start"] = "" if arm == START else lead(found.difference(arm, START, drawn))
        row["updates"] = f"{found.mean(arm, 'updates'):,.0f}" if arm != START else ""
        rows.append(row)
    return markdown_table(list(rows[0]), [list(row.values()) for row in rows])


def overview(runs: Sequence[Path]) -> str:
    """Methods × runs in Markdown: what the start answers rightly, in %, and the lead of each method over it, in points.

    Both greedily and, where that was judged, sampled; leads are bold where neither interval holds 0.
    """
    columns = [Found(Records(folder)) for folder in runs]
    rows = []
    for arm in (START, *Boards.ARMS):
        row = [Boards.ARMS.get(arm, arm)]
        for found in columns:
            cells = []
            for name in found.as_trained if arm in found.arms else []:
                gap = found.difference(arm, START, name)
                share = percent(found.column(arm, name).mean())
                cells.append(share if arm == START else bold(signed(gap.mean), gap))
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
            shares = [percent(outcomes[f"{RIGHT}{number}"].mean()) for number in (1, k)]
            cells.setdefault(one["arm"], {})[float(rates[one["arm"]])] = " / ".join(shares)
    columns = sorted({rate for row in cells.values() for rate in row})
    rows = [[Boards.ARMS[arm], *(cells[arm].get(rate, "") for rate in columns)] for arm in Boards.ARMS if arm in cells]
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
        about += ["with a divergence from the start"] * settings["divergence"]
        sections.append((records.folder.name, ", ".join(about), told))
    for records in map(Records, rates):
        sections.append((records.folder.name, "Right % at one position a pass / as trained, by rate", tried(records)))
    return "\n".join(f"## {name}\n\n{about}:\n\n{told}" for name, about, told in sections)


@dataclass
class Arguments:
    """The runs."""

    runs: list[Path] = field(metadata={"help": "Run folders of comparisons, or results packed from them."})
    overview: bool = option(False, "One table of all runs: the leads of methods in each.")
    tried: list[Path] = option([], "Folders of runs with other rates, to be told.")

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
