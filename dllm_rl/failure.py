"""What a step of `UnmaskTrainer` that was not finite leaves behind for inspection."""

from pathlib import Path

import torch

import llm_rl.training.failure
from dllm_rl.batch import PuzzleBatch
from dllm_rl.policy import PolicyConfig
from dllm_rl.rollout import Rollout
from llm_rl.training.failure import Failure
from sudoku_env.tokens import TokenLayout

ROLLOUT_CLASSES = (Rollout, PuzzleBatch, TokenLayout, PolicyConfig)


def load_failure(folder: Path, device: torch.device | str = "cpu") -> Failure:
    """Read what `UnmaskTrainer` kept of a step: `inputs["puzzles"]` is its `PuzzleBatch`, `rollout` its `Rollout`.

    Raises:
        FileNotFoundError: The folder holds no failure.
    """
    return llm_rl.training.failure.load_failure(folder, ROLLOUT_CLASSES, device)
