"""Comparisons of trainings: what came of their jobs, and how sure one may be of it."""

from sudoku_dllm.trials.record import Records, arm_of, job_name, pack, write_job
from sudoku_dllm.trials.statistics import (
    Estimate,
    PassesNeeded,
    Sweep,
    estimate,
    passes_needed,
    ratio_contributions,
)

__all__ = [
    "Estimate",
    "PassesNeeded",
    "Records",
    "Sweep",
    "arm_of",
    "estimate",
    "job_name",
    "pack",
    "passes_needed",
    "ratio_contributions",
    "write_job",
]
