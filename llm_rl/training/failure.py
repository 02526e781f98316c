"""What a step that was not finite leaves behind for inspection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from llm_rl.training.storage import load_record, save_record, whole_folder


@dataclass(frozen=True, eq=False)
class Failure:
    """A step that stopped training.

    Attributes:
        step: Optimizer steps before it.
        error: What was not finite.
        arguments: The training's arguments.
        inputs: The batch that the trainer's `training_step` was given: where gradients that were added up over several
            are not finite, the last of them.
        rollout: The roll-out on it; None where making it failed.
    """

    step: int
    error: str
    arguments: dict[str, Any]
    inputs: Any
    rollout: Any


def save_failure(folder: Path, failure: Failure, model: Any, weights: Mapping[str, Tensor] | None = None) -> None:
    """Write a failure and the weights with which it happened (`<folder>/model`, for `from_pretrained`).

    A folder that exists is replaced. `weights` are the model's where they are not all its own: None takes its own, and
    without any the model is left out. `OSError` where the disk refuses, and then there is no folder; `TypeError` where
    inputs or roll-out hold what a record cannot hold.
    """
    with whole_folder(folder) as partial:
        save_record(failure, partial / "batch")
        if weights is None:
            model.save_pretrained(partial / "model")
        elif weights:
            model.save_pretrained(partial / "model", state_dict=weights)


def load_failure(folder: Path, classes: Sequence[type] = (), device: torch.device | str = "cpu") -> Failure:
    """Read what `save_failure` wrote; the weights are a model's folder of their own.

    `classes` are the data classes of its inputs and roll-out, a trainer's `record_classes`.

    Raises:
        FileNotFoundError: The folder holds no failure.
        TypeError: A data class is missing from `classes`.
    """
    return load_record(folder / "batch", (Failure, *classes), device)
