"""What the reports of comparisons have in common."""

from pathlib import Path
from typing import Any

from llm_rl.training.storage import write_text_whole
from sudoku_dllm.machine import machine
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.results import Results

UNITS = {"steps": "updates", "cpu_seconds": "CPU seconds", "seconds": "seconds"}
"""What a budget counts, in words."""


def write_table(table: Any, path: Path) -> None:
    """Write a pandas table as CSV, whole or not at all."""
    write_text_whole(path, table.to_csv(index=False, float_format="%.6g"))


def closing_line(outcomes: Results) -> str:
    """On what the figures were made."""
    seeds = sorted({job.seed for job in outcomes.results if job.arm != BASE})
    return f"Seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}. {machine()}."
