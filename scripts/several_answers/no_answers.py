"""How far a check alone takes a model that has seen few solutions of blank boards, or none: the table.

Its records are kept; commit 73cb6d0 has the trainings (`scripts.several_answers.no_answers`).
"""

import numpy as np

from sudoku_dllm.trials.record import Records, arm_of
from sudoku_dllm.trials.words import markdown_table

FOLDER = "no_answers"
CELLS = (1, 2, 4)
TITLES = {
    "start": "start",
    "judged": "judged decisions",
    "sft": "SFT on the same grids",
    "digits": "SFT on them, digits renamed",
    "symmetries": "SFT on their images under all symmetries",
}


def row_of(records: Records, jobs: list[str]) -> list[str]:
    """An arm as a row: its cost, and per cent valid, at one cell a pass with each seed."""
    size, grids, _, arm = arm_of(jobs[0]).split("/")[1:]
    results = [records.result(job) or {} for job in jobs]
    outcomes = [records.outcomes(job) for job in jobs]
    by_seed = ", ".join(f"{100 * each['1/valid'].mean():.1f}" for each in outcomes)
    one, *means = (f"{100 * np.mean([each[f'{k}/valid'].mean() for each in outcomes]):.1f}" for k in CELLS)
    seconds = np.mean([result["cpu_seconds"] for result in results])
    about = [size.replace("x", "×"), grids.removeprefix("grids"), TITLES[arm]]
    return [*about, f"{seconds:,.0f}", f"{one} ({by_seed})" if len(jobs) > 1 else one, *means]


def table(records: Records) -> str:
    """What was trained in a study's folder, as Markdown; empty where nothing was."""
    by_arm: dict[str, list[str]] = {}
    for job in records.jobs():
        if job.startswith(f"{FOLDER}/"):
            by_arm.setdefault(arm_of(job), []).append(job)

    def place(arm: str) -> tuple[str, int, int, int]:
        size, grids, updates, name = arm.split("/")[1:]
        numbers = (int(grids.removeprefix("grids")), int(updates.removeprefix("updates")))
        return size, *numbers, list(TITLES).index(name)

    rows = [row_of(records, by_arm[arm]) for arm in sorted(by_arm, key=place)]
    head = ["boards", "grids shown", "trained by", "CPU s", *(f"{k} a pass" for k in CELLS)]
    return markdown_table(head, rows) if rows else ""
