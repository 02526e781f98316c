"""Sudoku with several right answers: a small LLaDA taught to fill many cells a pass, in several ways at equal cost.

A board with few clues has many completions. A model that matches them has the right marginals, but cells that one pass
fills are drawn without seeing each other, and clash. From one base are trained: masked-diffusion SFT on random grids;
both terms of the source's objective (docs/objective.md); judged decisions: of each state many decisions are drawn from
one pass, and a solver says which leave a completion; and imitation: what the model itself wrote in the end, a solver
checking each cell, is its label. --arms knows further ones. Each takes as many updates as are worth the same CPU
seconds, in a process of one thread, and is judged on the same held-out boards, by no check, the rules and the solver.
The run folder receives the arguments, report.html, table.csv, a picture, and for each arm metrics, checkpoints, model
and outcomes.

    sudoku-dllm train [recipe.yaml] [--learning_rate 1e-4 …]
    sudoku-dllm train [recipe.yaml] --resume_from_checkpoint last
    sudoku-dllm train --setting labels …

The second command goes on where a run was stopped: arms that had ended are kept, others go on from their checkpoints.
The third is another comparison, on puzzles with one answer, which has options of its own (--setting labels --help).
"""

from llm_rl.training.command_line import parse
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.arms import Several
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.arguments import REST
from sudoku_dllm.trials.recipe import compare_recipes


def main() -> None:
    """Train, judge, report."""
    rivals = ("max_steps", "train_seconds")
    script, args = parse(ScriptArguments, RecipeArguments, description=__doc__, one_of=rivals, rest=REST)
    compare_recipes(Several, lambda: Setting.load(script, args), script, args)
