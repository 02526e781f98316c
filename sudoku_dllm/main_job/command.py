"""The main job: one small LLaDA, taught 6×6 Sudoku in several ways at equal cost, side by side.

From one base are trained: masked-diffusion SFT; SFT whose loss counts definite cells alone; masked cross-entropy at the
states that the policy visits; and the objective of docs/objective.md (--arms also knows its placebo). Each takes as
many updates as are worth the same CPU seconds, in a process of one thread, and is judged on the same held-out puzzles.
The run folder receives the arguments, table.csv, a picture, a GIF of one decode, and for each arm metrics, checkpoints,
model and outcomes.

    sudoku-dllm train [recipe.yaml] [--learning_rate 1e-4 …]
    sudoku-dllm train [recipe.yaml] --resume_from_checkpoint last

The second command goes on where a run was stopped: arms that had ended are kept, others go on from their checkpoints.
"""

import json
import shlex
import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from dllm_rl.models.folder import check_folder, named_model
from dllm_rl.models.shipped import unknown
from llm_rl.training.command_line import (
    INTERRUPTED,
    USER_ERRORS,
    fail,
    need_file,
    need_model,
    need_reports,
    on_command_line,
    parse,
    user_errors,
)
from llm_rl.training.output_folder import LAST, RECORD, RunFolder
from llm_rl.training.quiet import quiet_libraries
from sudoku_dllm.main_job.arguments import BASE, CHANGEABLE, RecipeArguments, ScriptArguments, recorded
from sudoku_dllm.main_job.arm import GIF
from sudoku_dllm.main_job.card import write_card
from sudoku_dllm.main_job.data import Setting
from sudoku_dllm.main_job.page import write_page
from sudoku_dllm.main_job.report import Outcomes, closing_line, closing_text, draw, plan, write_table
from sudoku_dllm.main_job.side_by_side import Job, default_processes, in_processes, in_this_process
from sudoku_dllm.trials.record import RESULT
from sudoku_env.errors import SudokuError


def main() -> None:
    """Train, judge, report."""
    script, args = parse(ScriptArguments, RecipeArguments, description=__doc__, one_of=("max_steps", "train_seconds"))
    for option, path in {"data": script.data, **{f"eval_data, {n}": p for n, p in script.test_sets.items()}}.items():
        need_file(option, path)
    if script.curve_points:
        need_file("curve_data", script.curve_data)
    if script.model == ScriptArguments.model and (problem := unknown(script.model)):
        fail(problem)
    need_model("model", script.model)
    need_reports()
    if args.resume_from_checkpoint not in (None, LAST):
        fail(
            f"--resume_from_checkpoint {args.resume_from_checkpoint}: arms have checkpoints of their own, so a run is "
            f"resumed as a whole: give {LAST}, and the run's folder as --output_dir"
        )
    folder = RunFolder(args, inputs=[script.model, script.data, *script.eval_data])
    quiet_libraries()
    with user_errors(*USER_ERRORS, SudokuError, ValueError):
        if Path(script.model).is_dir():
            check_folder(Path(script.model))
        setting = Setting.load(script, args)
        with torch.device("meta"), named_model(script.model, "model"):  # sizes without weights
            shape = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(script.model))
    resume = args.resume_from_checkpoint is not None
    run = folder.open(recorded(script, args))
    if resume:
        check_same(run, recorded(script, args))

    # What is to be done, and how long it takes.
    seeds = script.seeds or [args.seed]
    jobs = [Job(BASE, seeds[0]), *(Job(arm, seed) for seed in seeds for arm in script.arms)]
    processes = default_processes(args) if script.jobs is None else script.jobs
    there = [job for job in jobs if resume and (job.folder(run) / RESULT).is_file()]
    left = [job for job in jobs if job not in there]
    print(f"\n{plan(setting, jobs, left, processes, shape.num_parameters())}")
    print(f"{len(there)} of {len(jobs)} results are there already.\n" if there else "", flush=True)

    try:
        if left and processes:
            if failed := in_processes(setting, run, left, processes, resume=resume):
                fail(
                    f"{len(failed)} of {len(jobs)} did not finish; mend what is said above and go on with {again(run)}"
                )
        elif left:
            in_this_process(setting, run, left, resume=resume)
        report(setting, run, jobs)
    except KeyboardInterrupt:
        print(
            f"\nStopped. What ended is kept, the rest goes on from its last checkpoint: {again(run)}", file=sys.stderr
        )
        raise SystemExit(INTERRUPTED) from None


def again(run: Path) -> str:
    """The command that goes on with the run in a folder: the words of this one, and where to go on."""
    words = [word for word in sys.argv[1:] if word != "--overwrite_output_dir"]
    if on_command_line("resume_from_checkpoint"):
        return shlex.join([sys.argv[0], *words])
    place = [] if on_command_line("output_dir") else ["--output_dir", str(run)]
    return shlex.join([sys.argv[0], *words, *place, "--resume_from_checkpoint", LAST])


def check_same(run: Path, given: dict[str, object]) -> None:
    """End the program if a run is resumed with arguments that its other arms were not trained with."""
    kept = json.loads((run / RECORD).read_text(encoding="utf-8"))
    now = json.loads(json.dumps(given, default=str))
    if changed := sorted(name for name in {*kept, *now} - CHANGEABLE if kept.get(name) != now.get(name)):
        words = ", ".join(f"{name} was {kept.get(name)!r} and is {now.get(name)!r}" for name in changed)
        fail(f"--resume_from_checkpoint: the run in {run} had other arguments: {words}; give the same, or a new folder")


def report(setting: Setting, run: Path, jobs: list[Job]) -> None:
    """Table, picture, one decode of the last arm, and the page with all of it."""
    outcomes = Outcomes(setting, run, jobs)
    write_table(outcomes, run / "table.csv")
    print(f"\n{closing_text(outcomes)}\n{closing_line(outcomes)}")
    draw(outcomes, run / "solved.png")
    shutil.copyfile(jobs[-1].folder(run) / GIF, run / GIF)
    for job in jobs:
        write_card(outcomes, job, run)
    page = write_page(outcomes, run, jobs)
    print(f"\nRun folder: {run} (table.csv, solved.png, decode.gif; a folder for each arm)")
    print(f"Report with replays, for a browser: {page}")
