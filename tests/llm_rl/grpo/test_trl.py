"""Our trainer and TRL's take the same steps from the same scripted completions."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_rl.grpo.extensions import EntropyBonus, Extension, ImportanceCorrection
from llm_rl.grpo.trainer import GRPOTrainer
from tests.llm_rl.helpers.tiny_grpo import WORDS, arguments, distinct_rows, length, new_model, small_ids, tokenizer
from tests.llm_rl.helpers.tiny_pictures import FAMILIES, picture, processor, seeing_model, shown
from tests.llm_rl.helpers.trl_steps import LENGTH, ScriptedEngine, trl_gradients
from tests.llm_rl.helpers.watch import gradients_of

pytest.importorskip("trl", reason="the comparison needs TRL: pip install 'sudoku-dllm[trl]'")

# With Adam's own epsilon a step magnifies rounding where gradients are small: TRL's rewards have single precision.
TWO_STEPS = {"max_steps": 2, "num_iterations": 2, "learning_rate": 2e-3, "adam_epsilon": 1e-4}
SEQUENCES = {
    "importance_sampling_level": "sequence",
    "kl_weight": 0.1,
    "clip_low": 0.002,
    "clip_high": 0.004,
    **TWO_STEPS,
}
BOUNDS = {"token": (0.6, 1.5), "sequence": (0.1, 10.0)}

CASES: dict[str, tuple[dict[str, Any], Extension | None, dict[str, Any]]] = {
    "defaults": ({"loss_type": "grpo"}, None, {}),
    "clipping": ({"loss_type": "dapo", **TWO_STEPS}, None, {}),
    "a constant length": ({"loss_type": "dr_grpo", **TWO_STEPS}, None, {}),
    "all tokens of a batch": ({"loss_type": "bnpo", "kl_weight": 0.05}, None, {}),
    "a reference": ({"loss_type": "grpo", "kl_weight": 0.3}, None, {}),
    **{
        f"ratios of sequences, {loss_type}": ({"loss_type": loss_type, **SEQUENCES}, None, {})
        for loss_type in ("grpo", "bnpo", "dr_grpo", "dapo")
    },
    "two rewards": ({"loss_type": "grpo", "reward_weights": [1.0, 0.3]}, None, {}),
    **{
        f"{level} {mode}": (
            {"loss_type": "dapo"},
            ImportanceCorrection(BOUNDS[level][1], BOUNDS[level][0], level, mode),
            {
                "vllm_importance_sampling_clip_max": BOUNDS[level][1],
                "vllm_importance_sampling_clip_min": BOUNDS[level][0],
                "vllm_importance_sampling_mode": f"{level}_{mode}",
            },
        )
        for level in ("token", "sequence")
        for mode in ("truncate", "mask")
    },
    "entropy bonus": ({"loss_type": "grpo", **TWO_STEPS}, EntropyBonus(0.1), {"entropy_coef": 0.1}),
    "entropy target": (
        {"loss_type": "dapo", **TWO_STEPS},
        EntropyBonus(0.1, target=9.0, coef_delta=0.03),
        {"entropy_coef": 0.1, "entropy_target": 9.0, "entropy_coef_delta": 0.03, "use_adaptive_entropy": True},
    ),
}
"""Settings of both trainers by our names, an extension of ours, and settings of TRL's alone."""
TRL_NAMES = {"kl_weight": "beta", "clip_low": "epsilon", "clip_high": "epsilon_high"}


def our_gradients(
    folder: Path, model: Any, reward_funcs: Any, extension: Extension | None,
    processor: Any = None, data: Any = None, **settings: Any,
) -> list[dict[str, torch.Tensor]]:  # fmt: skip
    common = {"max_completion_length": LENGTH, "max_grad_norm": 0.0, **settings}
    extensions = [] if extension is None else [copy.deepcopy(extension)]
    rows, eyes = data or distinct_rows(2), processor or tokenizer()
    given: dict[str, Any] = {"engine": ScriptedEngine(), "extensions": extensions}
    return gradients_of(GRPOTrainer(model, reward_funcs, arguments(folder, **common), rows, eyes, **given))


@pytest.mark.parametrize("case", CASES)
def test_the_steps_are_those_of_trl(tmp_path: Path, case: str) -> None:
    common, extension, theirs = CASES[case]
    model, rewards = new_model(dtype=torch.float64), [small_ids, length]
    theirs = {TRL_NAMES.get(name, name): value for name, value in common.items()} | theirs
    expected = trl_gradients(tmp_path / "trl", copy.deepcopy(model), rewards, **theirs)
    found = our_gradients(tmp_path / "ours", model, rewards, extension, **common)
    same_gradients(found, expected, common.get("max_steps", 1))


def same_gradients(found: list[dict[str, torch.Tensor]], expected: list[dict[str, torch.Tensor]], steps: int) -> None:
    assert len(found) == len(expected) == steps
    for step, gradients in enumerate(expected):
        assert max(float(gradient.abs().max()) for gradient in gradients.values()) > 1e-3
        norm = float(torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum().sqrt())
        for name, gradient in gradients.items():
            assert (found[step][name] - gradient).abs().max() < 1e-6 * max(1.0, norm), (step, name)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_steps_on_pictures_are_those_of_trl(tmp_path: Path, family: str) -> None:
    model, rewards, eyes = seeing_model(family, dtype=torch.float64), [small_ids, length], processor(family)
    common = {"loss_type": "dapo", "kl_weight": 0.3, **TWO_STEPS}
    theirs = {TRL_NAMES.get(name, name): value for name, value in common.items()}
    texts = [{"prompt": [{"role": "user", "content": WORDS[n]}], "images": [picture(n, 12 + 12 * n)]} for n in (0, 1)]
    expected = trl_gradients(tmp_path / "trl", copy.deepcopy(model), rewards, eyes, texts, **theirs)
    found = our_gradients(tmp_path / "ours", model, rewards, None, processor=eyes, data=shown(texts), **common)
    same_gradients(found, expected, 2)
