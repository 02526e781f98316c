"""The tables of a demonstration, of runs with different numbers of expert answers or other settings, and a picture.

python -m scripts.raro.report runs/raro_digits64 runs/raro_digits256 [--picture docs/images/raro_digits.png]
python -m scripts.raro.report data/study/raro_digits/*
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from llm_rl.training import load_pyplot, need_reports, parse, save_figure, user_errors
from scripts.raro.demonstration import CURVES, MAIN_ARMS, Demonstration
from sudoku_dllm.trials import Records
from sudoku_dllm.trials.trial_report import START, table

LEARNERS = ("raro", "more", "match")
"""Arms over the number of expert answers, from which all three learn."""


class OneChange(Demonstration):
    """RARO and what changes one thing of it, compared with RARO."""

    CONTROL = "raro"


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


def titled(settings: Mapping[str, Any]) -> str:
    """What a run differs in from others."""
    budget = f"{settings['max_steps']:,} updates" if settings["max_steps"] else f"{settings['cpu_seconds']:g} CPU s"
    silent = ""
    if not settings.get("reasoning", True):
        silent = ", no reasoning"
    elif not settings.get("critic_reasoning", True):
        silent = ", a critic without reasoning"
    return f"{settings['expert_answers']:,} expert answers, {budget}{silent}"


def told(runs: Sequence[Path]) -> str:
    """A table for each run, the fewest expert answers first, and one more where RARO was run with changes."""
    texts = []
    for records in in_order(runs):
        title, arms = titled(settings_of(records)), arms_of(records)
        changed = [arm for arm in Demonstration.CHANGES if arm in arms and arm not in MAIN_ARMS]
        main = [arm for arm in arms if arm not in changed]
        texts.append(f"{title}:\n\n{table(records, Demonstration, main)}")
        if changed and "raro" in arms:
            texts.append(f"{title}, one change each:\n\n{table(records, OneChange, ['raro', *changed])}")
    return "\n".join(texts)


def in_order(runs: Sequence[Path]) -> list[Records]:
    """The records of several runs, the fewest expert answers first, then by title."""

    def place(records: Records) -> tuple[int, str]:
        settings = settings_of(records)
        return int(settings["expert_answers"]), titled(settings)

    return sorted(map(Records, runs), key=place)


def arms_of(records: Records) -> set[str]:
    """The arms that have results."""
    return {(records.result(job) or {})["arm"] for job in records.jobs()}


def solved(records: Records, arm: str) -> list[float]:
    """The share of held-out questions that each seed of an arm answers rightly, in per cent."""
    jobs = [job for job in records.jobs() if (records.result(job) or {})["arm"] == arm]
    return [100 * float(records.outcomes(job)["solved"].mean()) for job in jobs]


def plot(runs: Sequence[Path], path: Path) -> None:
    """Right answers of each arm and what RARO's log says, of the run with the most trainings; and over like runs.

    Args:
        runs: Run folders. Those that differ from the one with the most trainings in the number of expert answers alone
            make the second panel.
        path: The PNG to write.
    """
    all_records = in_order(runs)
    records = max(all_records, key=lambda one: len(one.jobs()))
    figure, axes = load_pyplot().subplots(2, 3, figsize=(13, 7), layout="constrained")
    bars, numbers, *curves = axes.flat
    shares = {arm: found for arm in (START, *MAIN_ARMS) if (found := solved(records, arm))}
    for place, each in enumerate(reversed(shares.values())):
        bars.barh(place, np.mean(each), color="0.8")
        bars.plot(each, [place] * len(each), ".", color="tab:blue")
    bars.set_yticks(range(len(shares)), [Demonstration.ARMS.get(arm, arm) for arm in reversed(shares)])
    bars.set(title=f"right, held-out questions\n{titled(settings_of(records))}", xlabel="%")

    # Over the number of expert answers.
    like = [one for one in all_records if _but_answers(one) == _but_answers(records)]
    answers = [settings_of(one)["expert_answers"] for one in like]
    for arm in LEARNERS:
        points = [(count, found) for count, one in zip(answers, like, strict=True) if (found := solved(one, arm))]
        line = numbers.plot([count for count, _ in points], [np.mean(found) for _, found in points], "o-")
        for count, found in points:
            numbers.plot([count] * len(found), found, ".", color=line[0].get_color(), alpha=0.4)
        line[0].set_label(Demonstration.ARMS[arm])
    numbers.set_xscale("log", base=4)
    numbers.set_xticks(answers, [f"{count:,}" for count in answers])
    numbers.set(title="right, held-out questions", xlabel="expert answers", ylabel="%")
    numbers.grid(alpha=0.3)
    numbers.legend(fontsize="small")

    # What RARO's log says.
    for job in records.jobs():
        result = records.result(job) or {}
        if result["arm"] == "raro":
            for axis, name in zip(curves, CURVES, strict=True):
                points = [(line["step"], line[name]) for line in result["curve"] if name in line]
                axis.plot(*zip(*points, strict=True), label=f"seed {result['seed']}")
    for axis, title in zip(curves, CURVES.values(), strict=True):
        axis.set_title(title, fontsize="medium")
        axis.set_xlabel("update of RARO")
        axis.grid(alpha=0.3)
    curves[0].legend(fontsize="small")
    save_figure(figure, path)


def _but_answers(records: Records) -> dict[str, Any]:
    """The settings of a run without those that say how much of it was run, and the number of expert answers."""
    left_out = {"expert_answers", "arms", "seeds", "jobs", "output_dir", "overwrite_output_dir"}
    kept = settings_of(records).items()
    return {name: value for name, value in kept if name not in left_out | {"resume_from_checkpoint"}}


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
