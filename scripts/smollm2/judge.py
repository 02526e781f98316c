"""Rewards of several models on more held-out puzzles, with the same puzzles and random numbers for each.

What the training scripts print is of few puzzles and other draws for each model; this compares what `train_grpo.py`
and `train_vapor.py` saved, with the task's arguments as there.

    python -m scripts.smollm2.judge --models runs/smollm2/start runs/smollm2/vapor_seed*/model --test_puzzles 128
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from llm_rl.grpo.arguments import GRPOArguments
from llm_rl.grpo.trainer import GRPOTrainer
from llm_rl.training.command_line import fail, need_model, need_writable, parse
from scripts.smollm2.recipe import TaskArguments, judge_models, puzzle_rows
from sudoku_env.chat.rewards import cells_reward, givens_reward


@dataclass
class Arguments(TaskArguments):
    """The task, and the models to judge."""

    models: list[str] = field(default_factory=list, metadata={"help": "Folders of models with their tokenizers."})
    max_completion_length: int = field(default=36, metadata={"help": "Longest completion in tokens."})
    run_dir: str = field(default="runs/judge_smollm2", metadata={"help": "Where the trainer may write."})


(task,) = parse(Arguments, description=__doc__)
if not task.models:
    fail("--models needs at least one folder of a model")
for folder in task.models:
    need_model("models", folder)
need_writable("run_dir", task.run_dir)
rows = puzzle_rows(task)["test"]
args = GRPOArguments(
    output_dir=task.run_dir,
    max_completion_length=task.max_completion_length,
    per_device_eval_batch_size=64,
    report_to="none",
    use_cpu=not torch.cuda.is_available(),
)


def new_trainer(model: Any, tokenizer: Any) -> GRPOTrainer:
    """What judges a model."""
    return GRPOTrainer(model, [givens_reward, cells_reward], args, rows, tokenizer)


judge_models(task, task.models, rows, new_trainer, ("reward_mean",))
