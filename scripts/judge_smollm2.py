"""Held-out rewards of a start and of models trained from it, on more puzzles than training looks at.

Each model completes the same puzzles with the same random numbers, once sampled at temperature 1 and once greedily; the
reward is the share of the given digits kept plus that of the blanks filled rightly.

    python scripts/judge_smollm2.py --models runs/smollm2/start runs/smollm2/vapor_seed*/model --test_puzzles 128
"""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from smollm2 import TaskArguments, judge, puzzle_rows, trainable
from transformers import HfArgumentParser

from llm_rl.arguments import GRPOArguments
from llm_rl.grpo import GRPOTrainer
from sudoku_env.rewards import cells_reward, givens_reward


@dataclass
class Arguments(TaskArguments):
    """The task, and the models to judge."""

    models: list[str] = field(default_factory=list, metadata={"help": "Folders of models with their tokenizers."})
    lora_r: int = field(default=0, metadata={"help": "Not used: the models have their adapters merged."})
    run_dir: str = field(default="runs/judge_smollm2", metadata={"help": "Where the trainer may write."})


(task,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
missing = [folder for folder in task.models if not Path(folder).is_dir()]
if missing or not task.models:
    raise SystemExit(f"--models: no such folders: {missing}" if missing else "--models: give at least one folder")
rows = puzzle_rows(task)["test"]
args = GRPOArguments(
    task.run_dir,
    max_completion_length=36,
    per_device_eval_batch_size=64,
    report_to="none",
    use_cpu=not torch.cuda.is_available(),
)
for folder in task.models:
    model, tokenizer = trainable(task, Path(folder))
    trainer = GRPOTrainer(model, [givens_reward, cells_reward], args, rows, tokenizer)
    found = judge(trainer, rows, task.greedy)
    text = ", ".join(f"{way} {values['reward_mean']:.3f}" for way, values in found.items())
    print(f"{folder}: {text}", flush=True)
