"""GRPO on SmolLM2-135M: 4×4 Sudoku as a chat, from a small supervised start, judged on held-out grids.

Makes the start if it is not there (LoRA on expert answers), trains it with `llm_rl.grpo.trainer.GRPOTrainer` on the
rewards of `sudoku_env.chat.rewards`, and judges both on puzzles whose grids do not occur in training. The run folder
receives the arguments, `metrics.jsonl` with the held-out curve, `curve.png`, the trained model, `results.json` and
`report.html`.

    python -m scripts.smollm2.train_grpo [recipe.yaml] [--start runs/smollm2/start --seed 1 …]
    python -m scripts.smollm2.train_grpo [recipe.yaml] --resume_from_checkpoint last
"""

from dataclasses import dataclass, field

from llm_rl import GRPOArguments, GRPOTrainer
from llm_rl.core import LossType
from llm_rl.training import parse
from scripts.smollm2.recipe import (
    REWARD_PANELS,
    RecipeDefaults,
    TaskArguments,
    choose_folder,
    puzzle_rows,
    rewarded,
    train_and_judge,
)


@dataclass
class RecipeArguments(RecipeDefaults, GRPOArguments):
    """Arguments of GRPO with this script's defaults."""

    output_dir: str = field(default="runs/train_grpo", metadata={"help": "Run folder."})
    max_steps: int = field(default=12, metadata={"help": "Optimizer steps."})
    max_completion_length: int = field(default=36, metadata={"help": "Longest completion in tokens."})
    loss_type: LossType = field(
        default="dr_grpo", metadata={"help": "grpo, bnpo, dr_grpo or dapo; see core.loss_types."}
    )


task, args = parse(TaskArguments, RecipeArguments, description=__doc__)


folder = choose_folder(task, args)
rows, new_trainer = puzzle_rows(task), rewarded(GRPOTrainer, args)
train_and_judge("GRPO", task, args, folder, rows, rows["train"], new_trainer, REWARD_PANELS, ("reward_mean", "entropy"))
