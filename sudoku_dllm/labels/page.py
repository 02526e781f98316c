"""The page of a comparison of labels: `report.html` in its folder."""

from collections.abc import Sequence
from pathlib import Path

from dllm_rl.decoding import Decoding
from sudoku_dllm.labels.report import Outcomes, column, tables
from sudoku_dllm.run_page.page import Replay
from sudoku_dllm.run_page.replays import chosen, replays_of
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.reporting import model_of, write_report


def write_page(outcomes: Outcomes, run: Path, jobs: Sequence[Job]) -> Path:
    """Write the page of a run whose jobs have ended; its path."""
    setting = outcomes.setting
    facts = {
        "base": setting.script.model,
        "trained on": f"{len(setting.train):,} puzzles of {Path(setting.script.data).name}",
    }
    found = [table for name in setting.tests for table in tables(outcomes, name)]
    title = f"{run.name}: decoding order on Sudoku"
    return write_report(outcomes, run, jobs, title, facts, found, _replays(outcomes, run, jobs))


def _replays(outcomes: Outcomes, run: Path, jobs: Sequence[Job]) -> list[Replay]:
    """Decodes of the best arm with its first seed: of puzzles that it solves, and of some that it fails."""
    setting = outcomes.setting
    name, strategy, k = key = outcomes.leading(next(iter(setting.tests)))
    job = next(job for job in jobs if job.arm == outcomes.best(column(key)))
    rows = chosen(outcomes.outcomes[job][column(key)].tolist())
    puzzles = [setting.tests[name][row] for row in rows]
    how = Decoding(strategy, tokens_per_step=k)
    return replays_of(model_of(job, run, setting.script.model), f"{job.arm}, {name}", setting.judged_as, puzzles, how)
