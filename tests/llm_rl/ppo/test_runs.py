"""Checkpoints of PPO."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from llm_rl.training.errors import CheckpointError
from tests.llm_rl.helpers.tiny_grpo import distinct_rows, least_at_two
from tests.llm_rl.helpers.tiny_ppo import trainer


def test_a_checkpoint_without_its_value_function_is_refused(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1}
    trainer(tmp_path, **settings).train()
    other = trainer(tmp_path, **settings, max_steps=2, value_function="model", resume_with_changes=True)
    with pytest.raises(CheckpointError, match="holds a value function of another kind or size"):
        other.train(resume_from_checkpoint="last")
    (tmp_path / "checkpoint-1" / "value_function.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"value_function\.safetensors"):
        trainer(tmp_path, **settings, max_steps=2).train(resume_from_checkpoint="last")


def test_the_best_value_function_is_found_again(tmp_path: Path) -> None:
    each_step = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1, "max_steps": 3}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_reward_mean", "greater_is_better": False}
    given = {"eval_dataset": distinct_rows(6)}
    run = trainer(tmp_path, learning_rate=1e-2, reward_funcs=least_at_two, given=given, **each_step, **best)
    run.train()
    assert run.state.best_model_checkpoint == str(tmp_path / "checkpoint-2")
    found = load_file(tmp_path / "checkpoint-2" / "value_function.safetensors")
    assert torch.equal(found["head.weight"], run.value_function.head.weight)
