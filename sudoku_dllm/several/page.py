"""The page of the comparison on several right answers: `report.html` in its folder."""

from collections.abc import Sequence
from pathlib import Path

from dllm_rl import Decoding
from sudoku_dllm.run_page.page import Replay, Table
from sudoku_dllm.run_page.replays import COUNT, chosen, replays_of
from sudoku_dllm.several.judging import cells_of
from sudoku_dllm.several.report import CHECKED, TITLES, Outcomes, ceiling_of, valid
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
PASSES = (
    "Per cent of passes from boards that can be completed: joint, the cells agree, so that a completion is left; "
    "peers, pairs of one row, column or box; definite, the digit was the same in all completions; (random), of cells "
    "drawn at random. Valid and distinct grids are those of {} drawn decodes of the empty board."
)


def write_page(outcomes: Outcomes, setting: Setting, run: Path, jobs: Sequence[Job]) -> Path:
    """Write the page of a run whose jobs have ended; its path."""
    script = setting.script
    facts = {"base": script.model, "trained on": "boards of {} to {} clues, none held out".format(*script.clues)}
    title = f"{run.name}: Sudoku with several right answers"
    return write_report(outcomes, run, jobs, title, facts, _tables(outcomes), _replays(outcomes, setting, run, jobs))


def _tables(outcomes: Outcomes) -> list[Table]:
    """Each way of checking at decoding, and the differences from the leaders without one."""
    script, use_cpu, tables = outcomes.script, outcomes.args.use_cpu, []
    unit = "CPU s" if use_cpu else "seconds"
    for guard, title in CHECKED.items():
        aside = {None: ["one answer", unit], "rules": [], "completable": ["distinct"]}[guard]
        columns = [*_columns(cells_of(script, guard)), *aside]
        rows = [[TITLES[arm], *outcomes.row(arm, guard)] for arm in outcomes.judged_by(guard)]
        if guard is None:
            for arm, row in zip(outcomes.arms, rows, strict=True):
                row += [outcomes.one_answer(arm), f"{outcomes.spent(arm, use_cpu=use_cpu):.0f}"]
            if found := ceiling_of(script):
                rows.append(["ceiling", *(f"{found[k]:.1f}" if k in found else "" for k in script.eval_tokens), "", ""])
        note = NOTES[guard].format(boards=script.test_boards, draws=script.draws, k=outcomes.args.tokens_per_step)
        tables.append(Table(title.capitalize(), ["arm", *columns], rows, note))
    head = ["", *_columns(script.eval_tokens)]
    for leader in outcomes.leaders:
        rows = []
        for arm in (arm for arm in outcomes.arms if arm != leader):
            by = [points(outcomes.difference(leader, arm, valid(k))) for k in script.eval_tokens]
            rows.append([f"{TITLES[leader]} − {TITLES[arm]}", *by])
        tables.append(Table("Differences in points, no check at decoding", head, rows))
    return [*tables, _passes(outcomes)] if outcomes.args.tokens_per_step in script.eval_tokens else tables


def _passes(outcomes: Outcomes) -> Table:
    """What the passes at the trained number of cells are like, and what is left of the variety of grids."""
    k, rows = outcomes.args.tokens_per_step, []
    for arm in outcomes.arms:
        grids = [100 * outcomes.empty_board(arm, "valid"), outcomes.empty_board(arm, "distinct")]
        rows.append([TITLES[arm], *(f"{value:.1f}" for value in (*outcomes.passes_like(arm, k), *grids))])
    head = ["arm", "joint", "peers", "(random)", "definite", "(random)", "valid", "distinct"]
    return Table(f"Passes of {k} cells, no check at decoding", head, rows, PASSES.format(outcomes.script.draws))


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
