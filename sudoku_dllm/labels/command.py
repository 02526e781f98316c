"""Puzzles with one answer: a small LLaDA, taught harder ones from few examples in several ways at equal cost.

From one base are trained: masked-diffusion SFT; SFT whose loss counts definite cells alone; masked cross-entropy at the
states that the policy visits; and the objective of docs/objective.md (--arms also knows its placebo). Each takes as
many updates as are worth the same CPU seconds, in a process of one thread, and is judged on the same held-out puzzles.
The run folder receives the arguments, table.csv, a picture, a GIF of one decode, and for each arm metrics, checkpoints,
model and outcomes.

    sudoku-dllm train --setting labels [recipe.yaml] [--learning_rate 1e-4 …]
    sudoku-dllm train --setting labels [recipe.yaml] --resume_from_checkpoint last

The second command goes on where a run was stopped: arms that had ended are kept, others go on from their checkpoints.
"""

import shutil
from pathlib import Path

from llm_rl.training.command_line import need_file, parse
from sudoku_dllm.labels.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.labels.arm import GIF, Arms
from sudoku_dllm.labels.card import write_card
from sudoku_dllm.labels.data import Setting
from sudoku_dllm.labels.page import write_page
from sudoku_dllm.labels.report import Outcomes, closing_text, draw, plan
from sudoku_dllm.trials.command import compare
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.reporting import closing_line, write_table


def main() -> None:
    """Train, judge, report."""
    script, args = parse(ScriptArguments, RecipeArguments, description=__doc__, one_of=("max_steps", "train_seconds"))
    for option, path in {"data": script.data, **{f"eval_data, {n}": p for n, p in script.test_sets.items()}}.items():
        need_file(option, path)
    if script.curve_points:
        need_file("curve_data", script.curve_data)
    compare(
        script,
        args,
        inputs=[script.data, *script.eval_data],
        load=lambda: Setting.load(script, args),
        arms=Arms,
        plan=plan,
        report=report,
    )


def report(setting: Setting, run: Path, jobs: list[Job]) -> None:
    """Table, picture, one decode of the last arm, and the page with all of it."""
    outcomes = Outcomes(setting, run, jobs)
    write_table(outcomes.long_table(), run / "table.csv")
    print(f"\n{closing_text(outcomes)}\n{closing_line(outcomes)}")
    draw(outcomes, run / "solved.png")
    shutil.copyfile(jobs[-1].folder(run) / GIF, run / GIF)
    for job in jobs:
        write_card(outcomes, job, run)
    page = write_page(outcomes, run, jobs)
    print(f"\nRun folder: {run} (table.csv, solved.png, decode.gif; a folder for each arm)")
    print(f"Report with replays, for a browser: {page}")
