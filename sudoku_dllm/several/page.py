"""The page of the comparison on several right answers: `report.html` in its folder."""

from collections.abc import Sequence
from pathlib import Path

from dllm_rl import Decoding
from sudoku_dllm.run_page.page import Replay, Table
from sudoku_dllm.run_page.replays import COUNT, chosen, replays_of
from sudoku_dllm.several.judging import cells_of
from sudoku_dllm.several.report import CHECKED, TITLES, Outcomes, valid
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.reporting import model_of, write_report
from sudoku_dllm.trials.words import points

NOTES = {
    None: "Per cent of {boards:,} held-out boards completed validly, and of as many with one answer, {k} cells a pass.",
    "rules": "The same, no digit being written that stands twice in a unit, and forward passes.",
    "completable": "Forward passes / checks, nothing being invalid, and distinct grids of {draws} drawn.",
}


def write_page(outcomes: Outcomes, setting: Setting, run: Path, jobs: Sequence[Job]) -> Path:
    """Write the page of a run whose jobs have ended; its path."""
    script = setting.script
    facts = {"base": script.model, "trained on": "boards of {} to {} clues, none held out".format(*script.clues)}
    title = f"{run.name}: Sudoku with several right answers"
    return write_report(outcomes, run, jobs, title, facts, _tables(outcomes), _replays(outcomes, setting, run, jobs))


def _tables(outcomes: Outcomes) -> list[Table]:
    """Each way of checking at decoding, and the differences from the leaders without one."""
    script, tables = outcomes.script, []
    for guard, title in CHECKED.items():
        aside = {None: ["one answer"], "rules": [], "completable": ["distinct"]}[guard]
        columns = [*_columns(cells_of(script, guard)), *aside]
        rows = [
            [TITLES[arm], *outcomes.row(arm, guard), *[outcomes.one_answer(arm)] * (guard is None)]
            for arm in outcomes.judged_by(guard)
        ]
        note = NOTES[guard].format(boards=script.test_boards, draws=script.draws, k=outcomes.args.tokens_per_step)
        tables.append(Table(title.capitalize(), ["arm", *columns], rows, note))
    head = ["", *_columns(script.eval_tokens)]
    for leader in outcomes.leaders:
        rows = []
        for arm in (arm for arm in outcomes.arms if arm != leader):
            by = [points(outcomes.difference(leader, arm, valid(k))) for k in script.eval_tokens]
            rows.append([f"{TITLES[leader]} − {TITLES[arm]}", *by])
        tables.append(Table("Differences in points, no check at decoding", head, rows))
    return tables


def _columns(cells: Sequence[int]) -> list[str]:
    return [f"{k} cell{'s' * (k > 1)} a pass" for k in cells]


def _replays(outcomes: Outcomes, setting: Setting, run: Path, jobs: Sequence[Job]) -> list[Replay]:
    """Decodes of the best arm without a check, valid ones and some that are not, and of the start with the solver."""
    k = outcomes.leading_cells
    best = outcomes.best(valid(k))
    filled = setting.filled(setting.test_boards()[: 10 * COUNT])

    def replayed(arm: str, how: Decoding, rows: Sequence[int], told: str) -> list[Replay]:
        job = next(job for job in jobs if job.arm == arm)
        model = model_of(job, run, setting.script.model)
        return replays_of(model, f"{TITLES[arm]}, {told}", setting.task, [filled[row] for row in rows], how)

    job = next(job for job in jobs if job.arm == best)
    rows = chosen(outcomes.outcomes[job][valid(k)][: len(filled)].astype(bool).tolist())
    all_at_once = Decoding("margin", tokens_per_step=None, guard="completable")
    return [
        *replayed(best, Decoding("margin", tokens_per_step=k), rows, f"{k} cells a pass"),
        *replayed(BASE, all_at_once, rows[:2], "the solver, all cells at once"),
    ]
