"""Weights dealt out to two and three processes (FSDP2) against one process that has them all."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dllm_rl.models.llada import LladaForMaskedLM
from tests.dllm_rl.helpers.sharded import PASSES, loss_of, play
from tests.dllm_rl.helpers.tiny_training import arguments, new_model, trainer, untimed
from tests.helpers.refusals import refused
from tests.helpers.warm_process import run_in_processes

SCRIPT = Path(__file__).parents[1] / "helpers" / "sharded.py"
COMMON: dict[str, Any] = {"max_steps": 2, "count": 12, "logging_steps": 1, "learning_rate": 3e-3, "optim": "sgd"}
COMMON |= {"max_grad_norm": 0.05, "advantage_scale": "none"}  # dividing by a small spread would magnify rounding
TWICE = {**COMMON, "max_steps": 3, "num_iterations": 2}
SAVED = {**TWICE, "optim": "adamw_torch", "save_strategy": "steps", "save_steps": 1}
WHOLE = {"per_device_train_batch_size": 6}
"""What the processes share in a step; a pass holds few states, so each takes passes of its own number."""
IN_TWO = {"shard": True, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 3, "max_tokens_per_pass": 150}
IN_THREE = {**IN_TWO, "gradient_accumulation_steps": 2}
RUNS: dict[str, dict[str, Any]] = {
    "plain": COMMON,
    "float32": {**COMMON, "dtype": "float32"},
    "kept": {**TWICE, "max_grad_norm": 0.0, "advantage_baseline": "leave_one_out"},
    "lora": {**COMMON, "lora": 2, "gradient_checkpointing": True, "policy_weight": 0.0},
}
"""Compared with one process."""


def told(folder: Path, name: str, rank: int) -> Any:
    return json.loads((folder / f"{name}-rank{rank}.json").read_text())


def weights(folder: Path, name: str, rank: int = 0) -> dict[str, Tensor]:
    return load_file(folder / f"{name}-rank{rank}.safetensors")


def assert_near(ours: dict[str, Tensor], theirs: dict[str, Tensor], within: float) -> None:
    assert ours.keys() == theirs.keys()
    for name, weight in theirs.items():
        assert (ours[name] - weight).abs().max() <= within, name


def run(count: int, folder: Path, runs: dict[str, dict[str, Any]], timeout: float = 600) -> None:
    done = run_in_processes(count, SCRIPT, [folder, json.dumps(runs)], timeout=timeout)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes did; "resumed" goes on between two updates on a roll-out."""
    folder = tmp_path_factory.mktemp("two")
    runs = {name: {**settings, **IN_TWO} for name, settings in RUNS.items()}
    runs |= {"uneven": {}, "uneven_bfloat16": {}, "autocast": {**runs["float32"], "bf16": True}}
    runs |= {"saved": {**SAVED, **IN_TWO}}
    runs["resumed"] = {**runs["saved"], "resume": str(folder / "saved" / "checkpoint-1")}
    runs["lora_saved"] = {**runs["saved"], "lora": 2, "save_steps": 2}
    runs["lora_resumed"] = {**runs["lora_saved"], "resume": str(folder / "lora_saved" / "checkpoint-2")}
    runs |= {name: {**runs["plain"], "breaks": name} for name in ("unsharded", "not finite", "error")}
    run(2, folder, runs)
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process did with the same global batches."""
    folder = tmp_path_factory.mktemp("one")
    for name, settings in {**RUNS, "saved": SAVED}.items():
        play(folder / name, str(folder / f"{name}-rank0"), {**settings, **WHOLE})
        assert told(folder, name, 0)["error"] is None
    return folder


@pytest.fixture(scope="module")
def three(two: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What three processes did; "resumed" goes on from a checkpoint of two, where a roll-out ended or within one."""
    folder = tmp_path_factory.mktemp("three")
    runs = {name: {**RUNS[name], **IN_THREE} for name in ("plain", "lora")}
    runs["uneven"] = {}
    for step in (1, 2):
        start = {"resume": str(two / "saved" / f"checkpoint-{step}"), "resume_with_changes": True}
        runs[f"resumed_{step}"] = {**SAVED, **IN_THREE, **start}
    run(3, folder, runs)
    return folder


def assert_took_the_steps(folder: Path, name: str, count: int, expected: dict[str, Tensor], within: float) -> None:
    for rank in range(count):
        assert told(folder, name, rank)["error"] is None
        assert_near(weights(folder, name, rank), expected, within)


def assert_stopped(folder: Path, name: str, count: int, kind: str, words: str) -> None:
    for rank in range(count):
        found, message = told(folder, name, rank)["error"]
        assert found == kind and words in message


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_two_processes_with_a_share_each_take_the_steps_of_one(two, one, name) -> None:
    ours, theirs = told(two, name, 0), told(one, name, 0)
    assert_took_the_steps(two, name, 2, weights(one, name), 1e-6 if name == "float32" else 1e-9)
    if name != "float32":
        for line, expected in zip(untimed(ours["logs"]), untimed(theirs["logs"]), strict=True):
            assert line == pytest.approx(expected, abs=1e-9, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "lora"])
def test_three_processes_take_the_steps_of_one(three, one, name) -> None:
    assert_took_the_steps(three, name, 3, weights(one, name), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_processes_with_other_numbers_of_passes_wait_for_each_other(two, three, count) -> None:
    """The gradient is the mean over processes of the sum over their passes; one process takes none of three."""
    model = new_model().double()
    for rank in range(count):
        for number in range(PASSES[rank]):
            (loss_of(model, 10 * rank + number) / count).backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    for rank in range(count):
        assert_near(weights(two if count == 2 else three, "uneven", rank), expected, 1e-9)


@pytest.mark.slow
def test_in_bfloat16_gradients_are_added_up_over_processes_in_fp32(two) -> None:
    """Each pass's is rounded to eight bits, and so is their sum."""
    found, exact = weights(two, "uneven_bfloat16"), weights(two, "uneven")
    assert all(gradient.dtype == torch.bfloat16 for gradient in found.values())
    for name, gradient in exact.items():
        assert (found[name] - gradient).norm() <= 0.05 * gradient.norm(), name


@pytest.mark.slow
def test_under_autocast_weights_stay_in_fp32_and_the_same_everywhere(two) -> None:
    first, second = weights(two, "autocast"), weights(two, "autocast", 1)
    assert told(two, "autocast", 0)["error"] is None
    assert all(weight.dtype == torch.float32 and torch.equal(weight, second[name]) for name, weight in first.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "lora_"])
def test_a_resumed_run_equals_one_left_alone_bit_for_bit(two, name) -> None:
    for rank in (0, 1):
        whole, parts = told(two, f"{name}saved", rank), told(two, f"{name}resumed", rank)
        assert (whole["error"], parts["error"]) == (None, None)
        assert untimed(parts["logs"]) == untimed(whole["logs"])
        ours, theirs = weights(two, f"{name}resumed", rank), weights(two, f"{name}saved", rank)
        assert all(torch.equal(ours[key], weight) for key, weight in theirs.items())


@pytest.mark.slow
def test_three_processes_go_on_where_two_had_ended_a_roll_out(three, one) -> None:
    assert_took_the_steps(three, "resumed_2", 3, weights(one, "saved"), 1e-6)


@pytest.mark.slow
def test_within_a_roll_out_as_many_processes_must_resume(three) -> None:
    assert_stopped(three, "resumed_1", 3, "CheckpointError", "holds a roll-out in use")


@pytest.mark.slow
def test_a_checkpoint_holds_the_whole_model_too(two) -> None:
    last = two / "saved" / "checkpoint-3"
    model = LladaForMaskedLM.from_pretrained(last, dtype=torch.float64)
    assert_near(dict(model.named_parameters()), weights(two, "saved"), 0.0)
    assert model.config.architectures == ["LladaForMaskedLM"]
    assert (last / "shards").is_dir() and not (last / "optimizer.pt").exists()


@pytest.mark.slow
def test_a_run_whose_weights_were_not_dealt_out_is_refused(two) -> None:
    assert_stopped(two, "unsharded", 2, "RuntimeError", "dealt out to 1 processes, not to all 2")


@pytest.mark.slow
def test_what_is_not_finite_in_one_process_stops_all(two) -> None:
    assert_stopped(two, "not finite", 2, "FloatingPointError", "a number of this process is not finite")
    first = two / "not finite" / "failed_step-0-rank0"
    assert LladaForMaskedLM.from_pretrained(first / "model").num_parameters() == new_model().num_parameters()
    assert not (two / "not finite" / "failed_step-0-rank1" / "model").exists()


@pytest.mark.slow
def test_an_error_of_one_process_is_told_to_all(two) -> None:
    assert told(two, "error", 1)["error"] == ["ValueError", "a row cannot be read"]
    assert told(two, "error", 0)["error"] == ["RuntimeError", "process 1 stopped: ValueError: a row cannot be read"]


@pytest.mark.slow
def test_a_process_that_dies_ends_the_others_in_seconds(tmp_path) -> None:
    run(2, tmp_path, {"dies": {**COMMON, **IN_TWO, "breaks": "die"}}, timeout=120)
    alone = told(tmp_path, "dies", 0)
    assert alone["error"][0] == "RuntimeError" and "a process of this run has ended" in alone["error"][1]
    assert alone["seconds"] < 60


@pytest.mark.parametrize("name", ["ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"])
def test_what_accelerate_launches_is_refused(tmp_path, monkeypatch, name) -> None:
    args, told = arguments(tmp_path), f"leave out {name}, and start with torchrun and shard=True"
    monkeypatch.setenv(name, "true")
    refused(told, lambda: trainer(tmp_path, args=args))
