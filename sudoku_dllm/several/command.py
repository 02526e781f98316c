"""Sudoku with several right answers: a small LLaDA taught to fill many cells a pass, in several ways at equal cost.

A board with few clues has many completions. A model that matches them has the right marginals, but cells that one pass
fills are drawn without seeing each other, and clash. From one base are trained: masked-diffusion SFT on random grids;
SFT on one canonical completion of each board, the solver's first; the same label at the states that the policy visits;
and judged decisions (docs/objective.md): of each state many decisions are drawn from one pass, and a solver says which
leave a completion. --arms knows further controls. Each takes as many updates as are worth the same CPU seconds, in a
process of one thread, and is judged on the same held-out boards, with and without peers in one pass. The run folder
receives the arguments, table.csv, a picture, and for each arm metrics, checkpoints, model and outcomes.

    sudoku-dllm train [recipe.yaml] [--learning_rate 1e-4 …]
    sudoku-dllm train [recipe.yaml] --resume_from_checkpoint last
    sudoku-dllm train --setting labels …

The second command goes on where a run was stopped: arms that had ended are kept, others go on from their checkpoints.
The third is another comparison, on puzzles with one answer, which has options of its own (--setting labels --help).
"""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from dllm_rl.models.folder import check_folder, named_model
from dllm_rl.models.shipped import unknown
from llm_rl.training.command_line import USER_ERRORS, fail, need_model, need_reports, parse, user_errors
from llm_rl.training.output_folder import RunFolder
from llm_rl.training.quiet import quiet_libraries
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.arms import Arms
from sudoku_dllm.several.card import write_card
from sudoku_dllm.several.report import Outcomes, closing_line, closing_text, draw, plan, write_table
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.arguments import BASE, recorded
from sudoku_dllm.trials.command import carry_out, check_same, need_whole_run
from sudoku_dllm.trials.jobs import Job, default_processes
from sudoku_env.errors import SudokuError


def main() -> None:
    """Train, judge, report."""
    script, args = parse(ScriptArguments, RecipeArguments, description=__doc__, one_of=("max_steps", "train_seconds"))
    if script.model == ScriptArguments.model and (problem := unknown(script.model)):
        fail(problem)
    need_model("model", script.model)
    need_reports()
    need_whole_run(args.resume_from_checkpoint)
    folder = RunFolder(args, inputs=[script.model])
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
    """Tables and picture."""
    outcomes = Outcomes(setting.script, setting.args, run, jobs)
    write_table(outcomes, run / "table.csv")
    print(f"\n{closing_text(outcomes)}\n{closing_line(outcomes)}")
    draw(outcomes, run / "valid.png")
    for job in jobs:
        write_card(outcomes, job, run)
    print(f"\nRun folder: {run} (table.csv, valid.png; a folder for each arm)")
