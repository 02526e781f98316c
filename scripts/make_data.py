"""Write the frozen puzzle sets of the main job, split by solution grid up to the symmetries of Sudoku.

A line of a set is {"prompt": …}, the training format: a puzzle described in words. No test or validation grid, nor any
image of it under a symmetry, occurs in training; every puzzle has one solution, which naked and hidden singles find.
"""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from transformers import HfArgumentParser

from sudoku_env.generator import generate
from sudoku_env.logic import singles_rounds
from sudoku_env.solver import solve_batch
from sudoku_env.split import in_split
from sudoku_env.text import build_prompt


@dataclass
class DataArguments:
    """Arguments of `make_data.py`."""

    output_dir: str = field(default="data", metadata={"help": "Folder to write to."})
    size: int = field(default=6, metadata={"help": "Board size; 4×4 has too few classes of grids for three sets."})
    clues_low: int = field(default=14, metadata={"help": "Fewest clues of a puzzle."})
    clues_high: int = field(default=18, metadata={"help": "Most clues of a puzzle."})
    template: str = field(
        default="compact", metadata={"help": "Wording of the prompts, see sudoku_env.text.TEMPLATES."}
    )
    train: int = field(default=3000, metadata={"help": "Puzzles to train on."})
    validation: int = field(default=1000, metadata={"help": "Puzzles for choosing hyperparameters."})
    test: int = field(default=2000, metadata={"help": "Held-out puzzles."})
    seed: int = field(default=2026, metadata={"help": "Of the generator."})


(args,) = HfArgumentParser(DataArguments).parse_args_into_dataclasses()
wanted = {"train": args.train, "validation": args.validation, "test": args.test}
clues = (args.clues_low, args.clues_high)
pool = generate(20 * sum(wanted.values()), size=args.size, clues=clues, seed=args.seed)
pool_boards, first = np.unique(pool.boards, axis=0, return_index=True)
order = np.sort(first)
boards, solutions = pool.boards[order], pool.solutions[order]

folder = Path(args.output_dir)
folder.mkdir(parents=True, exist_ok=True)
checksums = {}
for name, count in wanted.items():
    chosen = boards[: 20 * count][in_split(solutions[: 20 * count], name)][:count]
    if len(chosen) < count:
        raise SystemExit(
            f"only {len(chosen)} of {count} puzzles for {name}; ask for fewer, for more clues or for another size"
        )
    _, solution_counts = solve_batch(chosen, limit=2)
    assert (solution_counts == 1).all() and all(singles_rounds(board) > 0 for board in chosen)
    lines = [json.dumps({"prompt": build_prompt(board, args.template)}) + "\n" for board in chosen]
    target = folder / f"sudoku{args.size}x{args.size}_{name}.jsonl"
    partial = target.with_suffix(".partial")
    partial.write_text("".join(lines), encoding="utf-8")
    os.replace(partial, target)
    checksums[target.name] = hashlib.sha256(target.read_bytes()).hexdigest()
    print(f"{target}: {count} puzzles, {clues[0]} to {clues[1]} clues, sha256 {checksums[target.name][:16]}…")
(folder / f"sudoku{args.size}x{args.size}.sha256").write_text(
    "".join(f"{digest}  {name}\n" for name, digest in checksums.items()), encoding="utf-8"
)
