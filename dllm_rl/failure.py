"""What a step that was not finite leaves behind for inspection."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from dllm_rl.batch import PuzzleBatch
from dllm_rl.policy import PolicyConfig
from dllm_rl.rollout import Rollout
from llm_rl.storage import load_record, save_record, whole_folder
from sudoku_env.tokens import TokenLayout

ROLLOUT_CLASSES = (Rollout, PuzzleBatch, TokenLayout, PolicyConfig)


@dataclass(frozen=True, eq=False)
class Failure:
    """A step that stopped training.

    Attributes:
        step: Optimizer steps before it.
        error: What was not finite.
        arguments: The training's arguments.
        puzzles: The puzzles of the micro-batch.
        rollout: The roll-out on them; None where making it failed.
    """

    step: int
    error: str
    arguments: dict[str, Any]
    puzzles: PuzzleBatch
    rollout: Rollout | None


def save_failure(folder: Path, failure: Failure, model: PreTrainedModel) -> None:
    """Write a failure and the weights with which it happened (`<folder>/model`, for `from_pretrained`).

    Raises:
        OSError: The disk refuses; then there is no folder.
    """
    with whole_folder(folder) as partial:
        save_record(failure, partial / "batch")
        model.save_pretrained(partial / "model")


def load_failure(folder: Path, device: torch.device | str = "cpu") -> Failure:
    """Read what `save_failure` wrote, with tensors on a device; the weights are a model's folder of their own.

    Raises:
        FileNotFoundError: The folder holds no failure.
    """
    return load_record(folder / "batch", (Failure, *ROLLOUT_CLASSES), device)
