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

from llm_rl.training.command_line import parse
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.arms import Arms
from sudoku_dllm.several.card import write_card
from sudoku_dllm.several.report import Outcomes, closing_text, draw, plan
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.command import compare
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.reporting import closing_line, write_table


def main() -> None:
    """Train, judge, report."""
    script, args = parse(ScriptArguments, RecipeArguments, description=__doc__, one_of=("max_steps", "train_seconds"))
    compare(
        script,
        args,
        inputs=[],
        load=lambda: Setting.load(script, args),
        arms=Arms,
        plan=plan,
        report=report,
    )


def report(setting: Setting, run: Path, jobs: list[Job]) -> None:
    """Tables and picture."""
    script, args = setting.script, setting.args
    outcomes = Outcomes(script, args, run, [BASE, *script.arms], script.seeds or [args.seed])
    write_table(outcomes.long_table(), run / "table.csv")
    print(f"\n{closing_text(outcomes)}\n{closing_line(outcomes)}")
    draw(outcomes, run / "valid.png")
    for job in jobs:
        write_card(outcomes, job, run)
    print(f"\nRun folder: {run} (table.csv, valid.png; a folder for each arm)")
