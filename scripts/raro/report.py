"""The tables of a demonstration, of runs with different numbers of expert answers, and a picture.

python -m scripts.raro.report runs/raro_digits64 runs/raro_digits256 [--picture docs/images/raro_digits.png]
python -m scripts.raro.report data/study/raro_digits
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from llm_rl.training import load_pyplot, need_reports, parse, save_figure, user_errors
from scripts.raro.demonstration import CURVES, Demonstration
from sudoku_dllm.trials import Records
from sudoku_dllm.trials.trial_report import START, table


def settings_of(records: Records) -> Mapping[str, Any]:
    """The settings of a run.

    Raises:
        FileNotFoundError: It has no result.
    """
    jobs = records.jobs()
    if not jobs:
        raise FileNotFoundError(f"{records.folder} holds no results; give folders of finished runs")
    found: Mapping[str, Any] = (records.result(jobs[0]) or {})["settings"]
    return found


def told(runs: Sequence[Path]) -> str:
    """A table for each run, the fewest expert answers first."""
    texts = []
    for records in in_order(runs):
        settings = settings_of(records)
        budget = f"{settings['max_steps']:,} updates" if settings["max_steps"] else f"{settings['cpu_seconds']:g} CPU s"
        texts.append(f"{settings['expert_answers']:,} expert answers, {budget}:\n\n{table(records, Demonstration)}")
    return "\n".join(texts)


def in_order(runs: Sequence[Path]) -> list[Records]:
    """The records of several runs, the fewest expert answers first."""
    return sorted(map(Records, runs), key=lambda records: int(settings_of(records)["expert_answers"]))


def solved(records: Records, arm: str) -> list[float]:
    """The share of held-out questions that each seed of an arm answers rightly."""
    jobs = [job for job in records.jobs() if (records.result(job) or {})["arm"] == arm]
    return [float(records.outcomes(job)["solved"].mean()) for job in jobs]


def plot(runs: Sequence[Path], path: Path) -> None:
    """Right answers of each arm, and what RARO's log says, of the run with the most trainings."""
    records = max(map(Records, runs), key=lambda one: len(one.jobs()))
    figure, axes = load_pyplot().subplots(1, 1 + len(CURVES), figsize=(17, 3.6), layout="constrained")
    shares = {arm: found for arm in (START, *Demonstration.ARMS) if (found := solved(records, arm))}
    for place, each in enumerate(reversed(shares.values())):
        axes[0].barh(place, 100 * np.mean(each), color="0.8")
        axes[0].plot([100 * share for share in each], [place] * len(each), ".", color="tab:blue")
    axes[0].set_yticks(range(len(shares)), [Demonstration.ARMS.get(arm, arm) for arm in reversed(shares)])
    axes[0].set(title="right, held-out questions", xlabel="%")
    for job in records.jobs():
        result = records.result(job) or {}
        if result["arm"] == "raro":
            for axis, name in zip(axes[1:], CURVES, strict=True):
                points = [(line["step"], line[name]) for line in result["curve"] if name in line]
                axis.plot(*zip(*points, strict=True), label=f"seed {result['seed']}")
    for axis, title in zip(axes[1:], CURVES.values(), strict=True):
        axis.set_title(title, fontsize="medium")
        axis.set_xlabel("update of RARO")
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize="small")
    save_figure(figure, path)


@dataclass
class Arguments:
    """The runs, and where to write."""

    runs: list[Path] = field(metadata={"help": "Run folders of a demonstration, or results packed from them."})
    picture: Path | None = field(default=None, metadata={"help": "PNG to write."})


def main() -> None:
    """The command line."""
    (chosen,) = parse(Arguments, description=__doc__, places=("runs",))
    need_reports()
    with user_errors(OSError, ValueError):
        print(told(chosen.runs), end="")
        if chosen.picture:
            plot(chosen.runs, chosen.picture)


if __name__ == "__main__":
    main()
