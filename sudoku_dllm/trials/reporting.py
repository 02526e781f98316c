"""What the reports of comparisons have in common."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from llm_rl.training.storage import write_text_whole
from sudoku_dllm.machine import machine
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.jobs import Job

UNITS = {"steps": "updates", "cpu_seconds": "CPU seconds", "seconds": "seconds"}
"""What a budget counts, in words."""


class Reported(Protocol):
    """The outcomes of a comparison."""

    @property
    def results(self) -> Collection[Job]:
        """The results by their jobs."""

    def long_table(self) -> Any:
        """A pandas table with a row for each figure."""


def write_table(outcomes: Reported, path: Path) -> None:
    """Write the long table as CSV, whole or not at all."""
    write_text_whole(path, outcomes.long_table().to_csv(index=False, float_format="%.6g"))


def closing_line(outcomes: Reported) -> str:
    """On what the figures were made."""
    seeds = sorted({job.seed for job in outcomes.results if job.arm != BASE})
    return f"Seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}. {machine()}."
