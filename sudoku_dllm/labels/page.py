"""The page of a comparison of labels: `report.html` in its folder."""

from collections.abc import Sequence
from pathlib import Path

from dllm_rl.decoding import Decoding
from sudoku_dllm.labels.report import DEFINITE_FIRST, Outcomes, a_step, column
from sudoku_dllm.run_page.page import Replay, Table
from sudoku_dllm.run_page.replays import chosen, replays_of
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.reporting import model_of, write_report
from sudoku_dllm.trials.words import percent, points, share


def write_page(outcomes: Outcomes, run: Path, jobs: Sequence[Job]) -> Path:
    """Write the page of a run whose jobs have ended; its path."""
    setting = outcomes.setting
    facts = {
        "base": setting.script.model,
        "trained on": f"{len(setting.train):,} puzzles of {Path(setting.script.data).name}",
    }
    tables = [table for name in setting.tests for table in _tables(outcomes, name)]
    title = f"{run.name}: decoding order on Sudoku"
    return write_report(outcomes, run, jobs, title, facts, tables, _replays(outcomes, run, jobs))


def _tables(outcomes: Outcomes, name: str) -> list[Table]:
    """Solved by tokens a step, and the differences, on one test set."""
    script = outcomes.setting.script
    how, steps = script.strategies[0], script.eval_tokens
    solved, leads = [], []
    for arm in outcomes.arms:
        rates = [share(outcomes.rate(arm, column((name, how, k)))) for k in steps]
        solved.append([arm, *rates, percent(outcomes.rate(arm, outcomes.order(name)).mean)])
    for arm in outcomes.others:
        by = [points(outcomes.difference(outcomes.leader, arm, column((name, how, k)))) for k in steps]
        leads.append([f"{outcomes.leader} − {arm}", *by])
    head = ["arm", *(a_step(k) for k in steps), DEFINITE_FIRST]
    note = (
        f"Per cent of {len(outcomes.setting.tests[name]):,} puzzles, ± 95 % over puzzles and, with several seeds, over "
        f"seeds; decoded by {how}. {DEFINITE_FIRST.capitalize()} is the share of states whose surest cell is definite; "
        f"in random order it is {100 * outcomes.floors[name]:.1f}."
    )
    tables = [Table(f"{name}: solved", head, solved, note)]
    return [*tables, Table(f"{name}: differences in points", head[:-1], leads)] if leads else tables


def _replays(outcomes: Outcomes, run: Path, jobs: Sequence[Job]) -> list[Replay]:
    """Decodes of the best arm with its first seed: of puzzles that it solves, and of some that it fails."""
    setting = outcomes.setting
    name, strategy, k = key = outcomes.leading(next(iter(setting.tests)))
    job = next(job for job in jobs if job.arm == outcomes.best(column(key)))
    rows = chosen(outcomes.outcomes[job][column(key)].tolist())
    puzzles = [setting.tests[name][row] for row in rows]
    how = Decoding(strategy, tokens_per_step=k)
    return replays_of(model_of(job, run, setting.script.model), f"{job.arm}, {name}", setting.judged_as, puzzles, how)
