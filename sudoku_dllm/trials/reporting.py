"""What the reports of comparisons have in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_rl.training.logs import read_json_lines
from llm_rl.training.storage import write_text_whole
from sudoku_dllm.machine import machine
from sudoku_dllm.trials.arguments import BASE, SOURCE
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.training import METRICS


def write_table(table: Any, path: Path) -> None:
    """Write a pandas table as CSV, whole or not at all."""
    write_text_whole(path, table.to_csv(index=False, float_format="%.6g"))


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
