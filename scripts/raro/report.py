"""The tables of a demonstration, of runs with different numbers of expert answers or other settings, and a picture.

python -m scripts.raro.report runs/raro_digits64 runs/raro_digits256 [--picture docs/images/raro_digits.png]
python -m scripts.raro.report data/study/raro_digits/answers* --supervised data/study/raro_digits/supervised
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from llm_rl.training import load_pyplot, need_reports, parse, save_figure, user_errors
from scripts.raro.demonstration import CURVES, MAIN_ARMS, Demonstration
from sudoku_dllm.trials import Records
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.trial_report import SOLVED, START, table
from sudoku_dllm.trials.words import markdown_table

LEARNERS = ("raro", "more", "match")
"""Arms over the number of expert answers, from which all three learn."""


class OneChange(Demonstration):
    """RARO and what changes one thing of it, compared with RARO."""

    CONTROL: ClassVar[str | None] = "raro"


def settings_of(records: Records) -> Mapping[str, Any]:
    """The settings of a run.

    Raises:
        FileNotFoundError: It has no result.
    """
    results = list(records.results().values())
    if not results:
        raise FileNotFoundError(f"{records.folder} holds no results; give folders of finished runs")
    found: Mapping[str, Any] = results[0]["settings"]
    return found


def titled(settings: Mapping[str, Any]) -> str:
    """What a run differs in from others."""
    budget = f"{settings['max_steps']:,} updates" if settings["max_steps"] else f"{settings['cpu_seconds']:g} CPU s"
    silent = ""
    if not settings["reasoning"]:
        silent = ", no reasoning"
    elif not settings["critic_reasoning"]:
        silent = ", a critic without reasoning"
    return f"{settings['expert_answers']:,} expert answers, {budget}{silent}"


def told(runs: Sequence[Path]) -> str:
    """A table for each run, the fewest expert answers first, and one more where RARO was run with changes."""
    texts = []
    for records in in_order(runs):
        title, arms = titled(settings_of(records)), {one["arm"] for one in records.results().values()}
        changed = [arm for arm in Demonstration.CHANGES if arm in arms and arm not in MAIN_ARMS]
        main = [arm for arm in arms if arm not in changed]
        texts.append(f"{title}:\n\n{table(records, Demonstration, main)}")
        if changed and "raro" in arms:
            texts.append(f"{title}, one change each:\n\n{table(records, OneChange, ['raro', *changed])}")
    return "\n".join(texts)


def supervised(runs: Sequence[Path], shorter: Path) -> dict[int, dict[float, list[float]]]:
    """The share that each seed of SFT on the expert's answers solves, in per cent, by their number and by CPU seconds.

    Args:
        runs: Run folders of the comparison; those that differ from the shorter ones in their budget alone are told.
        shorter: A folder of runs with other budgets, of the seeds that are told.
    """
    found: dict[int, dict[float, list[float]]] = {}
    records = Records(shorter)
    for job, result in records.results().items():
        settings = result["settings"]
        times = found.setdefault(settings["expert_answers"], {})
        times.setdefault(settings["cpu_seconds"], []).append(100 * float(records.outcomes(job)["solved"].mean()))
    for one in map(Records, runs):
        settings = settings_of(one)
        times = found.get(settings["expert_answers"], {})
        if times and _setting(one, "cpu_seconds") == _setting(records, "cpu_seconds"):
            seeds = len(next(iter(times.values())))
            times[settings["cpu_seconds"]] = solved(one, "more")[:seeds]
    return {answers: dict(sorted(times.items())) for answers, times in sorted(found.items())}


def supervised_table(found: Mapping[int, Mapping[float, Sequence[float]]]) -> str:
    """A row for each number of expert answers, in Markdown."""
    times = sorted({time for row in found.values() for time in row})
    rows = [
        [f"{answers:,}", *(f"{np.mean(row[time]):.1f}" if time in row else "" for time in times)]
        for answers, row in found.items()
    ]
    return markdown_table(["expert answers", *(f"{time:g} s" for time in times)], rows)


def alike(runs: Sequence[Path]) -> list[Records]:
    """The run with the most trainings, and those that differ from it in the number of expert answers alone."""
    found = in_order(runs)
    most = max(found, key=lambda records: len(records.jobs()))
    return [records for records in found if _setting(records) == _setting(most)]


def by_number(runs: Sequence[Path], by_time: Mapping[int, Mapping[float, Sequence[float]]]) -> str:
    """A row for each number of expert answers in Markdown: what is solved in per cent, each seed's in brackets.

    Args:
        runs: Run folders.
        by_time: What `supervised` returns.
    """
    rows = []
    for records in alike(runs):
        answers = settings_of(records)["expert_answers"]
        cells = []
        for arm in (START, *LEARNERS):
            each = solved(records, arm)
            cells.append(f"{np.mean(each):.1f} ({', '.join(f'{one:.1f}' for one in each)})" if each else "")
        best = max((np.mean(each) for each in by_time.get(answers, {}).values()), default=None)
        starts = [found for found in records.results().values() if found["arm"] == START]
        critic = np.mean([found["critic/accuracy_distinct"] for found in starts])
        rows.append([f"{answers:,}", f"{critic:.2f}", *cells, "" if best is None else f"{best:.1f}"])
    titles = [Demonstration.ARMS[arm] for arm in LEARNERS]
    return markdown_table(["expert answers", "start's critic", "start", *titles, "SFT, at its best time"], rows)


def in_order(runs: Sequence[Path]) -> list[Records]:
    """The records of several runs, the fewest expert answers first, then by title."""

    def place(records: Records) -> tuple[int, str]:
        settings = settings_of(records)
        return int(settings["expert_answers"]), titled(settings)

    return sorted(map(Records, runs), key=place)


def solved(records: Records, arm: str) -> list[float]:
    """The share of held-out questions that each seed of an arm answers rightly, in per cent."""
    found = Results(records, [arm])
    return [100 * float(each) for each in found.column(arm, SOLVED).mean(1)] if found.arms else []


def plot(runs: Sequence[Path], path: Path, by_time: Mapping[int, Mapping[float, Sequence[float]]]) -> None:
    """Right answers of each arm and what RARO's log says, of the run with the most trainings; and over like runs.

    Args:
        runs: Run folders. Those that differ from the one with the most trainings in the number of expert answers alone
            make the second panel.
        path: The PNG to write.
        by_time: What `supervised` returns; the best of each number of answers is a line of the second panel.
    """
    like = alike(runs)
    records = max(like, key=lambda one: len(one.jobs()))
    figure, axes = load_pyplot().subplots(2, 3, figsize=(13, 7), layout="constrained")
    bars, numbers, *curves = axes.flat
    shares = {arm: found for arm in (START, *MAIN_ARMS) if (found := solved(records, arm))}
    for place, each in enumerate(reversed(shares.values())):
        bars.barh(place, np.mean(each), color="0.8")
        bars.plot(each, [place] * len(each), ".", color="tab:blue")
    bars.set_yticks(range(len(shares)), [Demonstration.ARMS.get(arm, arm) for arm in reversed(shares)])
    bars.set(title=f"right, held-out questions\n{titled(settings_of(records))}", xlabel="%")

    # Over the number of expert answers.
    answers = [settings_of(one)["expert_answers"] for one in like]
    for arm in LEARNERS:
        points = [(count, found) for count, one in zip(answers, like, strict=True) if (found := solved(one, arm))]
        line = numbers.plot([count for count, _ in points], [np.mean(found) for _, found in points], "o-")
        for count, found in points:
            numbers.plot([count] * len(found), found, ".", color=line[0].get_color(), alpha=0.4)
        line[0].set_label(Demonstration.ARMS[arm])
    if by_time:
        best = [max(np.mean(each) for each in row.values()) for row in by_time.values()]
        numbers.plot(list(by_time), best, "s--", label="SFT, stopped at the best time", color="0.4")
    numbers.set_xscale("log", base=4)
    numbers.set_xticks(answers, [f"{count:,}" for count in answers])
    numbers.set(title="right, held-out questions", xlabel="expert answers", ylabel="%")
    numbers.grid(alpha=0.3)
    numbers.set_ylim(bottom=0)
    numbers.legend(fontsize="x-small", loc="lower right")

    # What RARO's log says.
    for result in records.results().values():
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


def _setting(records: Records, *but: str) -> dict[str, Any]:
    """The settings of a run without the number of expert answers, what says how much of it was run, and some others."""
    run = {"arms", "seeds", "jobs", "output_dir", "overwrite_output_dir", "resume_from_checkpoint"}
    left_out = run | {"expert_answers", *but}
    return {name: value for name, value in settings_of(records).items() if name not in left_out}


@dataclass
class Arguments:
    """The runs, and where to write."""

    runs: list[Path] = field(metadata={"help": "Run folders of a demonstration, or results packed from them."})
    supervised: Path | None = field(default=None, metadata={"help": "Runs of supervised training for other times."})
    picture: Path | None = field(default=None, metadata={"help": "PNG to write."})


def main() -> None:
    """The command line."""
    (chosen,) = parse(Arguments, description=__doc__, places=("runs",))
    need_reports()
    with user_errors(OSError, ValueError):
        print(told(chosen.runs), end="")
        by_time = supervised(chosen.runs, chosen.supervised) if chosen.supervised else {}
        if by_time:
            print(f"\nSFT by its CPU seconds:\n\n{supervised_table(by_time)}", end="")
        if len(alike(chosen.runs)) > 1:
            print(f"\nBy the number of expert answers:\n\n{by_number(chosen.runs, by_time)}", end="")
        if chosen.picture:
            plot(chosen.runs, chosen.picture, by_time)


if __name__ == "__main__":
    main()
