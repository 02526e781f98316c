"""Rewards of several models on more held-out puzzles, with the same puzzles and random numbers for each.

What the training scripts print is of few puzzles and other draws for each model; this compares what they saved, with
the task's arguments as there. Models in folders that are named as those below, NAME_seedN/model, and the start before
them, also make a table, with intervals over puzzles and over seeds.

    python -m scripts.smollm2.judge --models runs/smollm2/start runs/smollm2/*_seed*/*model --test_puzzles 128
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from llm_rl import GRPOArguments, GRPOTrainer
from llm_rl.training import fail, need_model, need_writable, parse
from scripts.smollm2.arms_table import Recorded, named, table
from scripts.smollm2.recipe import VERIFIERS, TaskArguments, judge_models, puzzle_rows


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
places = [named(folder) for folder in task.models]
seeds = sorted({seed for _, seed in places if seed is not None})
if seeds and len(set(places)) < len(places):
    fail(f"--models name an arm and a seed twice: {places}; one control for each seed is enough where times are equal")
by_arm = {arm: sorted(seed for name, seed in places if name == arm and seed) for arm, _ in places}
if len({tuple(each) for arm, each in by_arm.items() if (arm, None) not in places}) > 1:
    fail(f"--models hold other seeds for one arm than for another: {by_arm}; give the same for each")
rows = puzzle_rows(task)["test"]
args = GRPOArguments(
    output_dir=task.run_dir,
    max_completion_length=task.max_completion_length,
    per_device_eval_batch_size=64,
    report_to="none",
    use_cpu=not torch.cuda.is_available(),
)
recorded: list[list[Recorded]] = []


def new_trainer(model: Any, tokenizer: Any) -> GRPOTrainer:
    """What judges a model."""
    recorded.append([Recorded(reward) for reward in VERIFIERS])
    return GRPOTrainer(model, [*recorded[-1]], args, rows, tokenizer)


judge_models(task, task.models, rows, new_trainer, ("reward_mean",))
if seeds:
    for number, way in enumerate(["sampled", "greedy"] if task.greedy else ["sampled"]):
        part = slice(number * len(rows), (number + 1) * len(rows))
        rewards = {
            (arm, one): np.array([each.given[part] for each in functions])
            for (arm, seed), functions in zip(places, recorded, strict=True)
            for one in (seeds if seed is None else [seed])
        }
        print(f"\n{way}\n\n{table(rewards)}", end="")
