"""Our trainer and TRL's take the same steps from the same scripted completions."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.llm_rl.helpers.tiny_grpo import KeepGradients, distinct_rows, length, new_model, small_ids, trainer
from tests.llm_rl.helpers.trl_steps import LENGTH, ScriptedEngine, trl_gradients

pytest.importorskip("trl", reason="the comparison needs TRL: pip install 'sudoku-dllm[trl]'")

TWO_STEPS = {"max_steps": 2, "num_iterations": 2, "learning_rate": 2e-3}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "defaults": ({"loss_type": "grpo"}, {}, {}),
    "clipping": ({"loss_type": "dapo", **TWO_STEPS}, {}, {}),
    "highest entropy, dapo": ({"loss_type": "dapo", "top_entropy_quantile": 0.2}, {}, {}),
    "highest entropy, grpo and a reference": ({"loss_type": "grpo", "top_entropy_quantile": 0.2, "beta": 0.3}, {}, {}),
}
"""Settings of both trainers, of ours alone, and of TRL's alone."""


def our_gradients(folder: Path, model: Any, reward_funcs: Any, **settings: Any) -> list[dict[str, torch.Tensor]]:
    kept = KeepGradients()
    common = {"max_completion_length": LENGTH, "max_grad_norm": 0.0, **settings}
    given = {"engine": ScriptedEngine(), "callbacks": [kept]}
    trainer(folder, model, reward_funcs=reward_funcs, data=distinct_rows(2), given=given, **common).train()
    return kept.steps


@pytest.mark.parametrize("case", CASES)
def test_the_steps_are_those_of_trl(tmp_path: Path, case: str) -> None:
    common, ours, theirs = CASES[case]
    model, rewards = new_model(), [small_ids, length]
    expected = trl_gradients(tmp_path / "trl", copy.deepcopy(model), rewards, **common, **theirs)
    found = our_gradients(tmp_path / "ours", model, rewards, **common, **ours)
    assert len(found) == len(expected) == common.get("max_steps", 1)
    for step, gradients in enumerate(expected):
        assert max(float(gradient.abs().max()) for gradient in gradients.values()) > 1e-3
        for name, gradient in gradients.items():
            assert (found[step][name] - gradient).abs().max() < 1e-6, (step, name)
