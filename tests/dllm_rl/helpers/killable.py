"""A training run in a process of its own, to be killed and resumed."""

import os
import resource
from pathlib import Path
from typing import Any

import torch

from llm_rl.training.callbacks import MetricsWriter
from tests.dllm_rl.helpers.tiny_training import new_model, trainer

SETTINGS = {
    "max_steps": 8, "count": 8, "num_iterations": 3, "gradient_accumulation_steps": 2, "rl_learning_rate": 2e-3,
    "sft_learning_rate": 5e-4, "position_temperature_end": 0.5, "lr_scheduler_type": "cosine", "logging_steps": 5,
    "save_strategy": "steps", "save_steps": 1, "save_total_limit": 2,
}  # fmt: skip
"""Checkpoints lie between updates on a roll-out, between log lines and between epochs."""


def play(folder: Path, weights: dict[str, torch.Tensor], file_limit: int = 0, **changes: Any) -> None:
    """Train, from the last checkpoint if there is one; `file_limit` bounds the bytes of every file."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if file_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    model = new_model()
    model.load_state_dict(weights)
    run = trainer(folder, model, callbacks=[MetricsWriter(folder / "metrics.jsonl")], **{**SETTINGS, **changes})
    run.train(resume_from_checkpoint="last")
    run.save_model(str(folder / "final"))
