"""How much of each term's gradient is signal: half-batch cosines against the number of trajectories.

For each position temperature and number of trajectories, several roll-outs are drawn and each is cut into halves of its
puzzles; the cosine between a term's gradients on the two halves is averaged (`dllm_rl.diagnostics`). Prints a table and
writes it as CSV.

    python -m scripts.sudoku.gradient_cosines --model data/models/llada-sudoku6x6-converged --trajectories 32 256
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers.utils import logging

import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl.diagnostics import TERMS, half_batch_cosines
from dllm_rl.objective import ObjectiveConfig
from dllm_rl.policy import PolicyConfig
from dllm_rl.rollout import rollout
from dllm_rl.sudoku import PuzzleBatch
from llm_rl.training.command_line import (
    USER_ERRORS,
    fail,
    need_file,
    need_model,
    need_reports,
    need_writable,
    parse,
    user_errors,
)
from llm_rl.training.reports import load_pandas
from scripts.machine import machine
from sudoku_env.errors import SudokuError
from sudoku_env.prompts.tokens import pre_fill
from sudoku_env.puzzles import read_prompts

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Arguments:
    """Arguments of `gradient_cosines.py`."""

    model: str = field(
        default=str(ROOT / "data" / "models" / "llada-sudoku6x6-converged"),
        metadata={"help": "Folder of model and tokenizer."},
    )
    data: str = field(
        default=str(ROOT / "data" / "sudoku6x6_train.jsonl"), metadata={"help": "Prompts, as for training."}
    )
    max_gen_length: int = field(default=40, metadata={"help": "Response length in tokens."})
    num_generations: int = field(default=8, metadata={"help": "G."})
    trajectories: list[int] = field(
        default_factory=lambda: [32, 128, 512], metadata={"help": "Trajectories of a roll-out; multiples of 2 G."}
    )
    position_temperatures: list[float] = field(
        default_factory=lambda: [0.05, 0.4, 1.0, 3.0], metadata={"help": "T_pos."}
    )
    gamma: float = field(default=0.95, metadata={"help": "Discount factor."})
    repeats: int = field(default=3, metadata={"help": "Roll-outs for each row."})
    seed: int = field(default=0, metadata={"help": "Random seed of puzzles and roll-outs."})
    output_dir: str = field(default="runs/gradient_cosines", metadata={"help": "Folder of the CSV."})


(args,) = parse(Arguments, description=__doc__)
if wrong := [count for count in args.trajectories if count % (2 * args.num_generations)]:
    fail(f"trajectories {wrong} are no multiples of 2 × num_generations={args.num_generations}")
need_file("data", args.data)
need_model("model", args.model)
need_writable("output_dir", args.output_dir)
need_reports()
with user_errors(*USER_ERRORS, SudokuError):
    prompts = read_prompts(args.data)
logging.disable_progress_bar()
torch.set_num_threads(1)
with user_errors(OSError, ValueError):
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForMaskedLM.from_pretrained(args.model).float().train()
random = np.random.default_rng(args.seed)
generator = torch.Generator().manual_seed(args.seed)
config = ObjectiveConfig(gamma=args.gamma, advantage_baseline="leave_one_out", advantage_scale="none", reduction="mean")
rows = []
for temperature in args.position_temperatures:
    for count in args.trajectories:
        cosines: dict[str, list[float]] = {name: [] for name in TERMS}
        states, visits = 0, 0
        for _ in range(args.repeats):
            chosen = random.choice(len(prompts), count // args.num_generations, replace=False)
            puzzles = [pre_fill(prompts[number], tokenizer, args.max_gen_length) for number in chosen]
            batch = PuzzleBatch.collate(puzzles, pad_id=tokenizer.pad_token_id)
            record = rollout(
                model,
                batch,
                num_generations=args.num_generations,
                policy=PolicyConfig(temperature),
                generator=generator,
            )
            states, visits = states + len(record.responses), visits + int(record.live.sum())
            for name, value in half_batch_cosines(model, record, config=config).items():
                cosines[name].append(value)
        rows.append(
            {
                "T_pos": temperature,
                "trajectories": count,
                "distinct / visited": states / visits,
                **{f"cosine {name}": float(np.mean(values)) for name, values in cosines.items()},
                **{f"± {name}": float(np.std(values)) for name, values in cosines.items()},
            }
        )
        print({name: round(value, 3) for name, value in rows[-1].items()}, flush=True)
folder = Path(args.output_dir)
folder.mkdir(parents=True, exist_ok=True)
table = load_pandas().DataFrame(rows)
table.to_csv(folder / "gradient_cosines.csv", index=False)
parameters = sum(parameter.numel() for parameter in model.parameters())
print(
    f"\nHalf-batch cosines of the gradients of {parameters:,} parameters, {args.repeats} roll-outs a row, {machine()}"
)
print(table.to_string(index=False, float_format=lambda value: f"{value:.3f}"))
