"""A 4×4 study: a half-trained base, prompts split by grid, and a regime of three arms."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from dllm_rl.decoding import evaluate
from dllm_rl.sft import SftDataset, masked_diffusion_loss
from sudoku_env.generator import generate
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import pre_fill
from sudoku_env.solver import solve_batch
from tests.dllm_rl.helpers.tiny_training import new_model, sudoku_task, tokenizer

LENGTH = 19
EVALUATION = [
    {"strategy": "margin"},
    {"strategy": "policy"},
    {"strategy": "margin", "tokens_per_step": 3},
    {"strategy": "margin", "tokens_per_step": None, "threshold": 1.0},
]
UNMASK = {"per_device_train_batch_size": 4, "num_generations": 2, "learning_rate": 1e-3, "position_temperature": 1.0}
PARTS = ("train", "train", "train", "train", "validation", "test", "hard_test")


def write_data(folder: Path) -> None:
    """`base` and the prompts `train.jsonl`, `validation.jsonl`, `test.jsonl`, `hard_test.jsonl`."""
    names = tokenizer()
    boards = generate(200, size=4, clues=(12, 13), rule="singles", seed=1).boards
    parts: dict[str, list[str]] = {name: [] for name in PARTS}
    for board, solution in zip(boards, solve_batch(boards)[0], strict=True):
        parts[PARTS[int(solution.astype(int) @ np.arange(1, 17) ** 3) % 7]].append(build_prompt(board, "compact"))
    for name, prompts in parts.items():
        lines = [json.dumps({"prompt": prompt}) + "\n" for prompt in prompts]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    torch.manual_seed(0)
    prefilled, tested = ([pre_fill(prompt, names, LENGTH) for prompt in parts[name]] for name in ("train", "test"))
    data = SftDataset(sudoku_task(with_tail=True).batch(prefilled))
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    solved = 0.0
    while solved < 0.25:  # of the puzzles that the study tests on, so that an arm can gain and can lose
        for _ in range(20):
            rows = torch.randint(len(data), (48,))
            loss = masked_diffusion_loss(model, data.input_ids[rows].long(), data.maskable[rows], names.mask_token_id)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        solved = float(evaluate(model, tested, sudoku_task()).solved.mean())
    assert solved < 1
    model.save_pretrained(folder / "base")
    names.save_pretrained(folder / "base")


def regime(folder: Path) -> dict[str, Any]:
    """A regime as the YAML gives it."""
    arms = {
        "rl": {"kind": "unmask", "budget": {"steps": 4}, "arguments": UNMASK},
        "ce": {
            "kind": "unmask",
            "control": True,
            "budget": {"seconds": 0.2},
            "arguments": {**UNMASK, "policy_weight": 0.0, "f_weight": 0.0, "ce_weight": 1.0, "num_iterations": 2},
        },
        "sft": {
            "kind": "sft",
            "control": True,
            "budget": {"same_as": "rl", "by": "puzzles"},
            "arguments": {"per_device_train_batch_size": 8, "learning_rate": 1e-3},
        },
    }
    return {
        "base": str(folder / "base"),
        **{name: str(folder / f"{name}.jsonl") for name in dict.fromkeys(PARTS)},
        "max_gen_length": LENGTH,
        "evaluation": EVALUATION,
        "seeds": [0, 1],  # golden: tests name folders and results after them
        "select": "validation",
        "eval_share": 0.5,
        "passes": [4, 100],
        "arms": arms,
        "remarks": "What was *found*.",
    }


def write_study(path: Path, **regimes: Any) -> Path:
    """The configuration file of some regimes."""
    path.write_text(yaml.safe_dump({"remarks": "First.", "regimes": regimes}, sort_keys=False), encoding="utf-8")
    return path
