"""What a step of `UnmaskTrainer` that was not finite leaves behind for inspection."""

from pathlib import Path

import torch

import llm_rl.training.failure
from dllm_rl.decoding.rollouts import Rollout
from dllm_rl.policy import PolicyConfig
from dllm_rl.task import UnmaskTask
from llm_rl.training.failure import Failure


def load_failure(folder: Path, task: UnmaskTask, device: torch.device | str = "cpu") -> Failure:
    """Read what `UnmaskTrainer` kept of a step: `inputs["problems"]` is its batch, `rollout` its `Rollout`.

    Raises:
        FileNotFoundError: The folder holds no failure.
    """
    return llm_rl.training.failure.load_failure(folder, (Rollout, PolicyConfig, *task.record_classes), device)
