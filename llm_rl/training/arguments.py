"""Arguments that every training run has, whatever it trains."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from transformers import TrainingArguments

from llm_rl.core._checks import check_choices, check_count, check_rate
from llm_rl.core._options import option
from llm_rl.training.reports import check_tensorboard

Config = TypeVar("Config")
LARGEST_SEED = 2**32 - 1
"""What all generators take: NumPy's own limit."""


def check_seed(name: str, value: int | None) -> None:
    """Raises `ValueError` unless a seed is a whole number that every generator takes, or None."""
    if value is not None and not (isinstance(value, int) and 0 <= value <= LARGEST_SEED):
        raise ValueError(f"{name}={value} must be a whole number from 0 to {LARGEST_SEED}")


def part_of(arguments: Any, kind: type[Config]) -> Config:
    """The part of a run's arguments that a formula takes: the dataclass `kind`, whose fields they inherit."""
    return kind(**{item.name: getattr(arguments, item.name) for item in fields(kind)})  # type: ignore[arg-type]


def refuse_idle(arguments: Any, idle: Iterable[tuple[str, object, str]]) -> None:
    """Raises `ValueError` for arguments that somebody set, to other than their default, although they cannot act.

    `idle` are names of fields, separated by spaces; what makes them act, false where nothing does; and what is missing
    then, with the remedy, as the end of a sentence.
    """
    defaults = {item.name: item.default for item in fields(arguments)}
    for names, acts, remedy in idle:
        for name in names.split():
            if not acts and getattr(arguments, name) != defaults[name]:
                raise ValueError(f"{name}={getattr(arguments, name)!r} does nothing {remedy}, or leave it out")


@dataclass
class RunArguments(TrainingArguments):
    """What a run's folder, its checkpoints and its processes need; `transformers.TrainingArguments` is its parent."""

    logging_steps: float = option(10, "Log every so many steps; below 1: share of a run.")
    overwrite_output_dir: bool = option(False, "Start anew in a folder that holds a run; its checkpoints are deleted.")
    resume_from_checkpoint: str | None = option(
        None, "A checkpoint to go on from, or last: the newest whole one in output_dir."
    )
    resume_with_changes: bool = option(
        False, "Resume with arguments or data that change the mathematics; else they are an error."
    )
    expected_processes: int | None = option(
        None, "Stop unless training runs in so many processes; None takes any number."
    )
    shard: bool = option(False, "Deal weights, gradients and optimizer state out to the processes (FSDP2, torchrun).")

    def __post_init__(self) -> None:
        # transformers passes ddp_timeout on for accelerators alone: processes on CPU would wait for half an hour.
        if self.use_cpu and int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
            dist.init_process_group(self.ddp_backend or "gloo", timeout=timedelta(seconds=self.ddp_timeout))
        super().__post_init__()
        check_choices(self)
        for name in ("learning_rate", "weight_decay", "max_grad_norm"):
            check_rate(name, getattr(self, name))
        for name in ("seed", "data_seed"):
            check_seed(name, getattr(self, name))
        for name in ("per_device_train_batch_size", "gradient_accumulation_steps"):
            check_count(name, getattr(self, name))
        if self.max_steps != -1:
            check_count("max_steps", self.max_steps, "; leave it out for num_train_epochs")
        self.logging_nan_inf_filter = False  # a loss that is not finite is an error
        self.dataloader_pin_memory &= torch.accelerator.is_available() and not self.use_cpu
        if self.shard and self.fp16:
            raise ValueError("fp16=True is not supported with shard, whose gradients have no scaler; use bf16")
        if "tensorboard" in self.report_to:
            check_tensorboard()

    def __getstate__(self) -> dict[str, Any]:
        # accelerate's state stays in its process; one that unpickles the arguments sets its device up anew.
        return {name: value for name, value in vars(self).items() if name != "_setup_devices"}
