"""The report of the study on traces: tables and a picture, made from the results alone."""

from collections.abc import Sequence
from pathlib import Path

from llm_rl.training import load_pyplot, save_figure, write_text_whole
from scripts.propagation import settings
from scripts.propagation.settings import CONTROLS, EXAMPLES, GIVEN, MAIN, TOKENS_PER_STEP, TRAININGS
from scripts.study.results import checked_result
from sudoku_dllm.trials import Records, job_name
from sudoku_dllm.trials.page import fill
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.words import lead, markdown_table, percent, share

CELLS = [(kind, tokens) for kind in GIVEN for tokens in TOKENS_PER_STEP]
COMPARED = (
    ("sft_definite", "sft"),
    ("log_f_ce_definite_4", "sft"),
    ("log_f_4", "sft"),
    ("ce_definite_4", "sft"),
    ("ce_4", "sft"),
    ("placebo_4", "sft"),
    ("sft_definite", "placebo_4"),
    ("log_f_ce_definite_4", "placebo_4"),
    ("log_f_4", "placebo_4"),
    ("ce_definite_4", "ce_4"),
    ("log_f_4", "ce_4"),
    ("log_f_ce_definite_4", "ce_definite_4"),
    ("log_f_ce_definite_4", "sft_definite"),
    ("log_f_4", "placebo_4_half_rate"),
    ("log_f_4", "ce_4_half_rate"),
    ("ce_definite_4", "ce_4_half_rate"),
)
"""Which arm is compared with which."""
UNLABELLED = ("sft", "ce_4", "placebo_4")
"""The arms that are not told what is definite."""
PICTURE = "propagation.png"


def load(runs: Path) -> Results:
    """The results that are there, with whether each test trace was solved by "set/tokens".

    Raises:
        StudyConfigError: A result was made with other settings.
    """
    records = Records(runs)
    results = Results(records, TRAININGS)
    for job in results.results:
        checked_result(records, job_name(job.arm, seed=job.seed), TRAININGS[job.arm].settings)
    return results


def write_report(runs: Path, path: Path) -> None:
    """Write the report, and its picture to `images/` beside it.

    Args:
        runs: Folder of the results.
        path: Markdown to write; an existing file is replaced.

    Raises:
        StudyConfigError: A result was made with other settings.
    """
    found = load(runs)
    main = [name for name in MAIN if name in found.arms]
    parts = [fill(Path(__file__).with_name("header.md"), {"settings": settings})]
    if main:
        machines = sorted({result["machine"] for result in found.results.values()})
        (path.parent / "images").mkdir(parents=True, exist_ok=True)
        _draw(found, main, path.parent / "images" / PICTURE)
        seeds = sorted({job.seed for job in found.results if job.arm in main})
        tables = {
            "seeds": seeds,
            "machines": "; ".join(machines),
            "solved": _solved_table(found, main),
            "differences": _difference_table(found),
            "training": _training_table(found, main),
        }
        parts.append(fill(Path(__file__).with_name("main.md"), tables))
    if controls := [name for name in CONTROLS if name in found.arms]:
        parts.append(f"## Controls\n\nFor {EXAMPLES} traces and one budget where not said.\n")
        parts.append(_control_table(found, controls))
    write_text_whole(path, "\n".join(parts))


def _solved_table(found: Results, arms: Sequence[str]) -> str:
    rows = [[f"`{arm}`", *(share(found.rate(arm, _name(cell))) for cell in CELLS)] for arm in arms]
    return markdown_table(["", *map(_title, CELLS)], rows)


def _difference_table(found: Results) -> str:
    rows = [
        [f"`{first}` − `{second}`", *(lead(found.difference(first, second, _name(cell))) for cell in CELLS)]
        for first, second in COMPARED
        if first in found.arms and second in found.arms
    ]
    return markdown_table(["", *map(_title, CELLS)], rows)


def _training_table(found: Results, arms: Sequence[str]) -> str:
    rows = []
    for arm in arms:
        shares = [_mean(found, arm, name) for name in ("train/1", "test/1", "test/greedy_definite")]
        cost = [f"{found.each(arm)[0]['updates']:,.0f}", f"{found.mean(arm, 'cpu_seconds'):.0f}"]
        rows.append([f"`{arm}`", *cost, *shares])
    head = ["", "updates", "CPU seconds", "solved of the examples", "of the tests", "surest position definite"]
    return markdown_table(head, rows)


def _control_table(found: Results, controls: Sequence[str]) -> str:
    rows = []
    for name in controls:
        cells = [_mean(found, name, _name(cell)) for cell in CELLS]
        rows.append([f"`{name}`", str(len(found.each(name))), *cells, _mean(found, name, "train/1")])
    return markdown_table(["", "seeds", *map(_title, CELLS), "of the examples"], rows)


def _draw(found: Results, arms: Sequence[str], path: Path) -> None:
    """Bars of what each arm solves of `test`, with both intervals, and a dot for each seed."""
    plt = load_pyplot()
    figure, axes = plt.subplots(1, len(TOKENS_PER_STEP), figsize=(11, 4), sharey=True, constrained_layout=True)
    for axis, tokens in zip(axes, TOKENS_PER_STEP, strict=True):
        for place, arm in enumerate(arms):
            rate = found.rate(arm, f"test/{tokens}")
            low, high = rate.seeds or rate.puzzles
            bars = [[100 * (rate.mean - low)], [100 * (high - rate.mean)]]
            axis.bar(place, 100 * rate.mean, yerr=bars, capsize=4, color="C7" if arm in UNLABELLED else "C0")
            axis.plot([place] * len(rate.per_seed), [100 * one for one in rate.per_seed], "k.", alpha=0.5)
        axis.set(title=f"{tokens} token{'s' * (tokens > 1)} a step", xticks=range(len(arms)), ylim=(0, 100))
        axis.set_xticklabels(arms, rotation=25, ha="right")
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel("held-out traces solved (%)")
    save_figure(figure, path)
    plt.close(figure)


def _title(cell: tuple[str, int]) -> str:
    return f"{cell[0].replace('_', ' ')}, {cell[1]} a step"


def _name(cell: tuple[str, int]) -> str:
    return f"{cell[0]}/{cell[1]}"


def _mean(found: Results, arm: str, name: str) -> str:
    return percent(found.mean(arm, "solved", name))
