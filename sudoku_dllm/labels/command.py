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

import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from dllm_rl.models.folder import check_folder, named_model
from dllm_rl.models.shipped import unknown
from llm_rl.training.command_line import USER_ERRORS, fail, need_file, need_model, need_reports, parse, user_errors
from llm_rl.training.output_folder import RunFolder
from llm_rl.training.quiet import quiet_libraries
from sudoku_dllm.labels.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.labels.arm import GIF, Arms
from sudoku_dllm.labels.card import write_card
from sudoku_dllm.labels.data import Setting
from sudoku_dllm.labels.page import write_page
from sudoku_dllm.labels.report import Outcomes, closing_line, closing_text, draw, plan, write_table
from sudoku_dllm.trials.arguments import BASE, recorded
from sudoku_dllm.trials.command import carry_out, check_same, need_whole_run
from sudoku_dllm.trials.jobs import Job, default_processes
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
    need_whole_run(args.resume_from_checkpoint)
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
    processes = default_processes(args.use_cpu) if script.jobs is None else script.jobs
    carry_out(
        Arms(setting),
        run,
        jobs,
        processes,
        resume=resume,
        plan=lambda left: plan(setting, jobs, left, processes, shape.num_parameters()),
        report=lambda: report(setting, run, jobs),
    )


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
