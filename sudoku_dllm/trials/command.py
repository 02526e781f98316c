"""What the commands of comparisons have in common: which jobs are left, how they go on, and how a stop is told."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from dllm_rl.models.folder import check_folder, named_model
from dllm_rl.models.shipped import unknown
from llm_rl.training.command_line import (
    INTERRUPTED,
    USER_ERRORS,
    fail,
    need_model,
    need_reports,
    on_command_line,
    user_errors,
)
from llm_rl.training.output_folder import LAST, RECORD, RunFolder
from llm_rl.training.processes import first_says, is_first
from llm_rl.training.quiet import quiet_libraries
from sudoku_dllm.trials.arguments import BASE, BudgetedArguments, ComparisonArguments, recorded
from sudoku_dllm.trials.jobs import Comparison, Job, default_processes, in_processes, in_this_process
from sudoku_dllm.trials.record import RESULT
from sudoku_env.errors import SudokuError

Setting = TypeVar("Setting")

CHANGEABLE = {
    "arms", "seeds", "jobs", "output_dir", "overwrite_output_dir", "resume_from_checkpoint", "resume_with_changes",
    "disable_tqdm", "save_steps", "save_total_limit", "report_to", "logging_dir",
}  # fmt: skip
"""Arguments that a run may be resumed with others of."""


def need_whole_run(checkpoint: str | None) -> None:
    """End the program if a run is to be resumed from one checkpoint: its arms have some of their own."""
    if checkpoint not in (None, LAST):
        fail(
            f"--resume_from_checkpoint {checkpoint}: arms have checkpoints of their own, so a run is "
            f"resumed as a whole: give {LAST}, and the run's folder as --output_dir"
        )


def check_same(run: Path, given: Mapping[str, object]) -> None:
    """End the program if a run is resumed with arguments that its other arms were not trained with."""
    kept = json.loads((run / RECORD).read_text(encoding="utf-8"))
    now = json.loads(json.dumps(given, default=str))
    if changed := sorted(name for name in {*kept, *now} - CHANGEABLE if kept.get(name) != now.get(name)):
        words = ", ".join(f"{name} was {kept.get(name)!r} and is {now.get(name)!r}" for name in changed)
        fail(f"--resume_from_checkpoint: the run in {run} had other arguments: {words}; give the same, or a new folder")


def compare(
    script: ComparisonArguments,
    args: BudgetedArguments,
    *,
    inputs: Sequence[str],
    load: Callable[[], Setting],
    arms: Callable[[Setting], Comparison],
    plan: Callable[[Setting, list[Job], list[Job], int, int], str],
    report: Callable[[Setting, Path, list[Job]], None],
) -> None:
    """What both commands do with their arguments: look at what they name, then train, judge and report.

    Args:
        script: What is compared.
        args: The recipe.
        inputs: What is read beside the model.
        load: Reads the base and the puzzles.
        arms: The arms of what was read, as jobs.
        plan: Given what was read, all jobs, those that are left, how many run at a time and the model's parameters,
            what will happen.
        report: Given what was read, the folder and the jobs, called when all have a result.
    """
    if script.model == type(script).model and (problem := unknown(script.model)):
        fail(problem)
    need_model("model", script.model)
    need_reports()
    need_whole_run(args.resume_from_checkpoint)
    if args.world_size > 1:
        prepare_processes(script, args)
    folder = first_says(lambda: RunFolder(args, inputs=[script.model, *inputs]))
    args.output_dir = str(folder.path)
    quiet_libraries()
    with user_errors(*USER_ERRORS, SudokuError, ValueError):
        if Path(script.model).is_dir():
            check_folder(Path(script.model))
        setting = load()
        with torch.device("meta"), named_model(script.model, "model"):  # sizes without weights
            shape = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(script.model))
    resume = args.resume_from_checkpoint is not None
    run = first_says(lambda: folder.open(recorded(script, args)))
    if resume and is_first():
        check_same(run, recorded(script, args))

    # What is to be done, and how long it takes.
    seeds = script.seeds or [args.seed]
    jobs = [Job(BASE, seeds[0]), *(Job(arm, seed) for seed in seeds for arm in script.arms)]
    processes = default_processes(args.use_cpu) if script.jobs is None and args.world_size == 1 else script.jobs or 0
    carry_out(
        arms(setting),
        run,
        jobs,
        processes,
        resume=resume,
        plan=lambda left: plan(setting, jobs, left, processes, shape.num_parameters()),
        report=lambda: report(setting, run, jobs),
    )


def prepare_processes(script: ComparisonArguments, args: BudgetedArguments) -> None:
    """Let several processes train each arm together, of which the first alone speaks and writes.

    Ends the program if they cannot.
    """
    if alone := [arm for arm in script.arms if arm not in script.DEALT]:
        fail(f"--arms {alone[0]} is trained in one process; with {args.world_size} give some of {list(script.DEALT)}")
    if script.train_seconds is not None:
        fail(f"--train_seconds ends at another update in each of {args.world_size} processes; give --max_steps")
    if script.jobs:
        fail(f"--jobs {script.jobs} starts processes of its own; with {args.world_size} leave it out")
    if not is_first():
        args.disable_tqdm = True
        sys.stdout = open(os.devnull, "w", encoding="utf-8")


def carry_out(
    comparison: Comparison,
    run: Path,
    jobs: Sequence[Job],
    processes: int,
    *,
    resume: bool,
    plan: Callable[[list[Job]], str],
    report: Callable[[], None],
) -> None:
    """Run the jobs that have no result yet, then report; a stop ends the program with the command that goes on.

    Args:
        comparison: What the jobs are compared on.
        run: Folder of the run.
        jobs: All jobs.
        processes: How many run at a time, a process of one thread each; 0: one after the other in this process.
        resume: Whether results and checkpoints that are there are kept.
        plan: Given the jobs that are left, what will happen.
        report: Called when all have a result.
    """
    there = first_says(lambda: [job for job in jobs if resume and (job.folder(run) / RESULT).is_file()])
    left = [job for job in jobs if job not in there]
    print(f"\n{plan(left)}")
    print(f"{len(there)} of {len(jobs)} results are there already.\n" if there else "", flush=True)
    try:
        if left and processes:
            if failed := in_processes(comparison, run, left, processes, resume=resume):
                fail(
                    f"{len(failed)} of {len(jobs)} did not finish; mend what is said above and go on with {again(run)}"
                )
        elif left:
            in_this_process(comparison, run, left, resume=resume)
        if is_first():
            report()
    except KeyboardInterrupt:
        print(
            f"\nStopped. What ended is kept, the rest goes on from its last checkpoint: {again(run)}", file=sys.stderr
        )
        raise SystemExit(INTERRUPTED) from None


def again(run: Path) -> str:
    """The command that goes on with the run in a folder: the words of this one, and where to go on."""
    words = [word for word in sys.argv[1:] if word != "--overwrite_output_dir"]
    if not on_command_line("resume_from_checkpoint"):
        place = [] if on_command_line("output_dir") else ["--output_dir", str(run)]
        words += [*place, "--resume_from_checkpoint", LAST]
    return f"{sys.argv[0]} {shlex.join(words)}"  # a program's name and the setting are words of their own
