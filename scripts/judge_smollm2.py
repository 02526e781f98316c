"""Rewards of several models on more held-out questions, with the same questions and random numbers for each.

What the training scripts print is of few questions and other draws for each model; this compares what `train_grpo.py`
and `train_vapor.py` saved, with the task's arguments as there, and with `--task questions` what
`train_raro.py --data sudoku` did.

    python scripts/judge_smollm2.py --models runs/smollm2/start runs/smollm2/vapor_seed*/model --test_puzzles 128
"""

from dataclasses import dataclass, field
from math import nan
from pathlib import Path

import torch
from smollm2 import CRITIC_TEMPLATE, TaskArguments, judge, puzzle_rows, trainable
from transformers import HfArgumentParser

from llm_rl.arguments import GRPOArguments
from llm_rl.grpo import GRPOTrainer
from llm_rl.raro import RAROArguments, RAROTrainer
from sudoku_env.rewards import cells_reward, givens_reward


@dataclass
class Arguments(TaskArguments):
    """The task, and the models to judge."""

    models: list[str] = field(default_factory=list, metadata={"help": "Folders of models with their tokenizers."})
    task: str = field(default="chat", metadata={"help": "chat (GRPO, VAPOR), or questions (RARO)."})
    lora_r: int = field(default=0, metadata={"help": "Not used: the models have their adapters merged."})
    max_completion_length: int = field(default=36, metadata={"help": "Longest completion in tokens."})
    run_dir: str = field(default="runs/judge_smollm2", metadata={"help": "Where the trainer may write."})


(task,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
missing = [folder for folder in task.models if not Path(folder).is_dir()]
if missing or not task.models:
    raise SystemExit(f"--models: no such folders: {missing}" if missing else "--models: give at least one folder")
if task.task not in ("chat", "questions"):
    raise SystemExit(f"--task is {task.task!r}; choose chat or questions")
rows, rewards = puzzle_rows(task)["test"], [givens_reward, cells_reward]
common = {
    "output_dir": task.run_dir,
    "max_completion_length": task.max_completion_length,
    "per_device_eval_batch_size": 64,
    "report_to": "none",
    "use_cpu": not torch.cuda.is_available(),
}
shown = ["reward_mean"]
if task.task == "questions":
    shown = ["verified/givens_reward", "verified/cells_reward", "policy/reward_mean", "critic/accuracy_distinct"]
    rows = [
        {
            "question": row["prompt"][-1]["content"],
            "answer": row["chosen"],
            **{n: row[n] for n in ("puzzle", "solution")},
        }
        for row in rows
    ]
    common |= {"prompt_format": "text", "policy_system": "", "critic_system": "", "critic_template": CRITIC_TEMPLATE}
    common |= {"max_critic_completion_length": 12}


def new_trainer(model, tokenizer):
    """What judges the model."""
    if task.task == "chat":
        return GRPOTrainer(model, rewards, GRPOArguments(**common), rows, tokenizer)
    return RAROTrainer(model, RAROArguments(**common, beta=0.0), rows, tokenizer, verifiers=rewards)


for folder in task.models:
    found = judge(new_trainer(*trainable(task, Path(folder))), rows, task.greedy)
    ways = [f"{way} {', '.join(f'{n} {values.get(n, nan):.3f}' for n in shown)}" for way, values in found.items()]
    print(f"{folder}: {'; '.join(ways)}", flush=True)
