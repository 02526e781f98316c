"""The comparison's methods by name with adapters, on a small model: what trains, what is kept, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from scripts.referee.large import BY_NAME, LargeArguments, LargeRun
from tests.dllm_rl.helpers.published_llada import write_sudoku_checkpoint
from tests.scripts.helpers.in_process import run_here, run_until_checkpoint
from tests.scripts.helpers.started import ROOT

SCRIPT = "referee/large.py"
RECIPE = ROOT / "configs" / "referee_llada_8b.yaml"
SMALL: dict[str, Any] = {
    "model": "llada-sudoku6x6-converged", "dtype": "float32", "use_cpu": "true", "gradient_checkpointing": "false",
    "prompt_template": "compact", "boards": 30, "test_boards": 6, "eval_tokens": 4, "lora_r": 2, "max_steps": 2,
    "per_device_train_batch_size": 2, "num_generations": 4, "num_mini_batches": 2, "max_tokens_per_pass": 700,
    "save_steps": 1, "report_to": "none", "disable_tqdm": "true", "reward": "passes", "learning_rate": "1e-2",
}  # fmt: skip


def adapters(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "adapter_model.safetensors")


@pytest.mark.parametrize(
    "method", ["espo", *(pytest.param(name, marks=pytest.mark.slow) for name in BY_NAME if name != "espo")]
)
def test_a_method_moves_its_adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    run_here(monkeypatch, SCRIPT, RECIPE, **SMALL, method=method, output_dir=tmp_path / "run")
    found = json.loads((tmp_path / "run" / "result.json").read_text("utf-8"))
    assert found["method"] == method and found["updates"] == 2
    assert all(0 <= found[when]["4"] <= 1 for when in ("before", "after"))
    assert any(value.any() for name, value in adapters(tmp_path / "run").items() if "lora_B" in name)


def test_a_run_that_was_stopped_ends_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**SMALL, "method": "espo", "divergence": "true"}
    run_here(monkeypatch, SCRIPT, RECIPE, **options, output_dir=tmp_path / "whole")
    stopped = {**options, "output_dir": tmp_path / "stopped"}
    run_until_checkpoint(monkeypatch, "checkpoint-1", SCRIPT, RECIPE, **stopped)
    run_here(monkeypatch, SCRIPT, RECIPE, **stopped, resume_from_checkpoint="last")
    whole, resumed = adapters(tmp_path / "whole"), adapters(tmp_path / "stopped")
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_what_is_refused(tmp_path: Path) -> None:
    for wrong, said in (
        ({"method": "upo"}, "method='upo' is unknown; use one of diffu_grpo"),
        ({"method": "spg", "dtype": "int8"}, "dtype='int8'"),
        ({"method": "spg", "prompt_template": "none"}, "prompt_template='none'"),
    ):
        with pytest.raises(ValueError, match=said):
            LargeArguments(**wrong)
    run = {"output_dir": str(tmp_path), "use_cpu": True, "report_to": "none"}
    for bad, said in (
        ({"max_steps": -1}, "max_steps=-1 must be at least 1"),
        ({"max_steps": 4, "save_steps": 3, "num_iterations": 2}, "save_steps=3 must be a multiple of num_iterations=2"),
    ):
        with pytest.raises(ValueError, match=said):
            LargeRun(**run, **bad)


@pytest.mark.slow
def test_the_recipe_runs_on_a_published_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """bfloat16, adapters in fp32 and checkpointing stay as the recipe has them."""
    write_sudoku_checkpoint(tmp_path / "published")
    as_published = {"dtype", "gradient_checkpointing", "lora_r"}
    options = {name: value for name, value in SMALL.items() if name not in as_published}
    options |= {"model": tmp_path / "published", "method": "spg", "num_generations": 8}
    run_here(monkeypatch, SCRIPT, RECIPE, **options, output_dir=tmp_path / "run")
    arguments = json.loads((tmp_path / "run" / "arguments.json").read_text("utf-8"))
    assert arguments["dtype"] == "bfloat16" and arguments["gradient_checkpointing"] is True
    found = adapters(tmp_path / "run")
    assert {value.dtype for value in found.values()} == {torch.float32}
    assert sum(value.numel() for value in found.values()) == 8 * 1984  # of rank 16 where 1,984 are of rank 2
