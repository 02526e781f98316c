"""Weights of causal language models dealt out to two processes (FSDP2), against one process that has them all."""

from pathlib import Path
from traceback import StackSummary
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.api import CheckpointException
from transformers import AutoModelForCausalLM

from llm_rl.training.checkpoint import ExactTrainer
from llm_rl.training.errors import CheckpointError
from llm_rl.training.sharding import save_shards, units
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.runs import assert_steps_of_one, in_two_processes, record, tensors, told
from tests.llm_rl.helpers.tiny_grpo import SAVING, new_model, untimed
from tests.llm_rl.training.test_two_processes import ALONE, FEW, HALF, QUARTER

COMMON: dict[str, Any] = {"max_grad_norm": 0.0, "max_steps": 2, "learning_rate": 2e-3}
GRPO, DPO = ({"kind": kind, **COMMON, "evaluate": True} for kind in ("grpo", "dpo"))
HALVES, QUARTERS = {"shard": True, **HALF}, {"shard": True, **QUARTER}
ONE_PASS = {"shard": True, "per_device_train_batch_size": 8}
PPO = {"kind": "ppo", **COMMON, "num_ppo_epochs": 2, "kl_weight": 0.1, "gamma": 0.9, "bootstrap_cut_off": True}
RARO = {"kind": "raro", **COMMON, "kl_weight": 0.1, "critic_generations": 2, "max_tokens_per_batch": 57}
TURNS = {**GRPO, "max_turns": 3, "loss_type": "dapo", "max_grad_norm": 0.05}
RUNS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "grpo": ({**GRPO, "num_iterations": 2, "kl_weight": 0.1}, ALONE, HALVES),
    "grpo_tied": ({**GRPO, "tied": True, "optim": "adamw_torch"}, ALONE, HALVES),
    "grpo_turns": (TURNS, ALONE, {**HALVES, "gradient_checkpointing": True}),
    "grpo_lora": ({**GRPO, "lora": 2, "kl_weight": 0.5}, ALONE, HALVES),
    "ppo": ({**PPO, "max_grad_norm": 0.05}, FEW, QUARTERS),
    "dpo": (DPO, FEW, QUARTERS),
    "dpo_lora": ({**DPO, "lora": 2}, FEW, QUARTERS),
    "vapor": ({"kind": "vapor", **COMMON, "kl_weight": 0.1, "pref_loss_weight": 0.4}, ALONE, ONE_PASS),
    "raro": (RARO, ALONE, ONE_PASS),
}
"""Of each run what it does, what one process takes of it, and what each of two."""
RESUMED = ("grpo_tied", "ppo", "dpo_lora", "raro")
SAVED: dict[str, dict[str, Any]] = {
    "sampled": {**GRPO, **HALVES, **SAVING, "max_steps": 3, "own": True, "num_iterations": 2},
    **{f"{name}_saved": {**RUNS[name][0], **RUNS[name][2], **SAVING, "max_steps": 3} for name in RESUMED},
}
"""In the first the model samples itself; there, and in the second, a checkpoint lies between updates on a roll-out."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes did with all of `RUNS`, and what they sampled themselves, whole and resumed."""
    folder = tmp_path_factory.mktemp("two")
    runs = {name: {**common, **dealt} for name, (common, _, dealt) in RUNS.items()}
    for name, settings in SAVED.items():
        runs[name] = settings
        runs[f"{name}_resumed"] = {**settings, "resume": str(folder / name / "checkpoint-1")}
    return in_two_processes(folder, runs)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_two_processes_with_a_share_each_take_the_steps_of_one(two: Path, tmp_path: Path, name: str) -> None:
    common, whole, _ = RUNS[name]
    record(tmp_path / name, {**common, **whole})
    assert_steps_of_one(tmp_path / name, two / name, common)


@pytest.mark.slow
def test_tokens_are_drawn_from_the_policy_that_is_trained(two: Path) -> None:
    """The log-probabilities of generation, pass by pass with a cache, are those of one pass over the completions."""
    fresh = [line["engine_logp_diff_max"] for line in told(two / "sampled")["logs"][:3:2]]
    assert len(fresh) == 2 and max(fresh) < 1e-5
    first, second = tensors(two / "sampled"), tensors(two / "sampled", 1)
    assert all(torch.equal(second[name], value) for name, value in first.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVED)
def test_a_resumed_run_equals_one_left_alone_bit_for_bit(two: Path, name: str) -> None:
    for rank in (0, 1):
        whole, parts = told(two / name, rank), told(two / f"{name}_resumed", rank)
        assert untimed(parts["logs"]) == untimed(whole["logs"])
        ours, theirs = tensors(two / f"{name}_resumed", rank), tensors(two / name, rank)
        for key, value in theirs.items():
            assert not key.startswith("end.") or torch.equal(ours[key], value), key


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sampled", "grpo_tied_saved"])
def test_a_checkpoint_holds_the_whole_model_too(two: Path, name: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(two / name / "checkpoint-3", dtype=torch.float64)
    ends = tensors(two / name)
    assert model.config.architectures == ["LlamaForCausalLM"]
    assert all(torch.equal(weight, ends[f"end.{name}"]) for name, weight in model.named_parameters())


def test_units_are_the_layers_and_what_is_read_on_its_own() -> None:
    model, tied = new_model(), new_model(tie_word_embeddings=True)
    layers = [*model.model.layers]
    assert units(model, head_apart=True) == [*layers, model.model.embed_tokens, model.lm_head]
    assert units(model, head_apart=False) == [*layers, model.model.embed_tokens]
    assert units(tied, head_apart=True) == [*tied.model.layers]
    with pytest.raises(ValueError, match="Linear names no layers to shard by; give its class _no_split_modules"):
        units(torch.nn.Linear(2, 2), head_apart=True)


def test_a_share_that_cannot_be_written_is_an_error_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **options: Any) -> None:
        raise CheckpointException("save", {1: (OSError("no space left"), StackSummary())})

    monkeypatch.setattr("torch.distributed.checkpoint.save", full)
    model = new_model()
    with pytest.raises(OSError, match="process 1: no space left"):
        save_shards(tmp_path, model, torch.optim.SGD(model.parameters()))


def test_a_checkpoint_without_shares_is_named(tmp_path: Path) -> None:
    refused("has no shards", lambda: ExactTrainer._shards_of(str(tmp_path)), CheckpointError)
