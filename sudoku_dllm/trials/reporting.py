"""What the reports of comparisons have in common."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import AutoModelForMaskedLM

from llm_rl.training.callbacks import read_json_lines
from llm_rl.training.output_folder import RECORD
from llm_rl.training.reports import load_pyplot
from llm_rl.training.storage import save_figure, write_text_whole
from sudoku_dllm.machine import machine, versions
from sudoku_dllm.run_page.curves import loss_curve
from sudoku_dllm.run_page.page import PAGE, Page, Replay, Table
from sudoku_dllm.trials.arguments import BASE, SOURCE
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.training import METRICS, MODEL


def write_table(table: Any, path: Path) -> None:
    """Write a pandas table as CSV, whole or not at all."""
    write_text_whole(path, table.to_csv(index=False, float_format="%.6g"))


def save_drawing(figure: Any, axis: Any, path: Path) -> None:
    """Save a figure with the legend of an axis below it, in as few rows as have room, and close it."""
    handles, labels = axis.get_legend_handles_labels()
    rows = math.ceil(sum(0.7 + 0.07 * len(label) for label in labels) / figure.get_figwidth())  # inches at 9 points
    columns = math.ceil(len(labels) / rows)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    save_figure(figure, path)
    load_pyplot().close(figure)


def watched(run: Path, jobs: Sequence[Job]) -> str:
    """The four figures that docs/sources.md asks for, first and last, of each seed of its arm; "" without that arm."""
    names, text = ["clip_frac", "position_entropy", "greedy_definite", "position_top_prob"], ""
    for job in (job for job in jobs if job.arm == SOURCE):
        log = read_json_lines(job.folder(run) / METRICS).reindex(columns=names)
        seen = ((name, values.dropna().to_list()) for name, values in log.items())
        told = ", ".join(f"{name} {values[0]:.3g} to {values[-1]:.3g}" for name, values in seen if values)
        text += f"{job.arm}, seed {job.seed}, over its training: {told}\n"
    return text


def closing_line(outcomes: Results) -> str:
    """On what the figures were made."""
    seeds = sorted({job.seed for job in outcomes.results if job.arm != BASE})
    return f"Seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}. {machine()}."


def model_of(job: Job, run: Path, base: str) -> Any:
    """The model that a job left in the folder of its run; the base itself, which is not trained."""
    return AutoModelForMaskedLM.from_pretrained(base if job.arm == BASE else job.folder(run) / MODEL).eval()


def write_report(
    outcomes: Results,
    run: Path,
    jobs: Sequence[Job],
    title: str,
    facts: Mapping[str, str],
    tables: Sequence[Table],
    replays: Sequence[Replay],
) -> Path:
    """Write `report.html` of a run: tables, the loss of each arm with its first seed, decodes; its path."""
    results, logs = outcomes.results, dict[str, Path]()
    for job in (job for job in jobs if job.arm != BASE):
        logs.setdefault(job.arm, job.folder(run) / METRICS)
    spent = sum(result["seconds"] for result in results.values())
    about = {
        "arms": ", ".join(outcomes.arms),
        "seeds": ", ".join(str(seed) for seed in dict.fromkeys(job.seed for job in jobs)),
        "machine": "; ".join(dict.fromkeys(str(result["machine"]) for result in results.values())),
        "training": f"{spent / 60:.1f} minutes in all, of each arm and seed by itself",
        "versions": versions(),
    }
    arguments = json.loads((run / RECORD).read_text(encoding="utf-8"))
    return Page(title, {**facts, **about}, arguments, tables, [loss_curve(logs)], replays).write(run / PAGE)
