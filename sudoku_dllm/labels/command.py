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

from llm_rl.training.command_line import need_file, parse
from sudoku_dllm.labels.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.labels.arm import Labels
from sudoku_dllm.labels.data import Setting
from sudoku_dllm.trials.arguments import REST
from sudoku_dllm.trials.recipe import compare_recipes


def main() -> None:
    """Train, judge, report."""
    rivals = ("max_steps", "train_seconds")
    script, args = parse(ScriptArguments, RecipeArguments, description=__doc__, one_of=rivals, rest=REST)
    for option, path in {"data": script.data, **{f"eval_data, {n}": p for n, p in script.test_sets.items()}}.items():
        need_file(option, path)
    if script.curve_points:
        need_file("curve_data", script.curve_data)
    inputs = [script.data, *script.eval_data]
    compare_recipes(Labels, lambda: Setting.load(script, args), script, args, inputs)
