import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dllm_rl.training.trainer import UnmaskTrainer
from llm_rl.training.checked import CheckedTrainer
from llm_rl.training.processes import check_processes
from tests.dllm_rl.helpers.tiny_training import (
    KeepGradients,
    arguments,
    puzzles,
    sft_trainer,
    sudoku_task,
    trainer,
    untimed,
    warm_model,
)
from tests.helpers.warm_process import run_in_two_processes

HELPERS = Path(__file__).parents[1] / "helpers"
COMMON = {
    "max_steps": 4,
    "count": 16,
    "logging_steps": 2,
    "learning_rate": 3e-3,
    "optim": "sgd",
    "advantage_scale": "none",  # dividing by a small spread would magnify rounding
}
WHOLE = {**COMMON, "per_device_train_batch_size": 8}
DEALT = {**COMMON, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_tokens_per_pass": 150}
CHANGES = [
    {"max_grad_norm": 0.0, "num_iterations": 2, "advantage_baseline": "leave_one_out"},
    {"rl_learning_rate": 3e-3, "sft_learning_rate": 1e-3, "max_grad_norm": 0.05},
    {"policy_weight": 0.0, "f_form": "log", "num_iterations": 2, "num_generations": 1},
]
JUDGED = {
    **COMMON,
    "per_device_train_batch_size": 4,
    "policy_weight": 0.0,
    "f_weight": 0.0,
    "judged_weight": 1.0,
    "judged_draws": 8,
    "num_mini_batches": 2,
    "on_error": "redraw",
    "max_grad_norm": 0.0,
}
"""A step on half of the states of four puzzles in each process."""
GUARDED = {
    **JUDGED,
    "judged_weight": 0.0,
    "judged_draws": 4,
    "ce_weight": 0.5,
    "ce_target": "own",
    "kept_weight": 1.0,
    "on_error": "guard",
    "num_generations": 1,
    "tokens_per_step": 18,
}


SFT = {"kind": "sft", "max_steps": 3, "count": 16, "learning_rate": 3e-3, "optim": "sgd", "max_grad_norm": 0.0}
"""Masked-diffusion fine-tuning, two of eight puzzles at a time in each process."""


@pytest.fixture(scope="module")
def dealt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes did with all of `CHANGES`, then with `JUDGED` and `GUARDED`, then with `SFT`."""
    folder = tmp_path_factory.mktemp("dealt")
    cut = {**SFT, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    runs = json.dumps([*({**DEALT, **changes} for changes in CHANGES), JUDGED, GUARDED, cut])
    done = run_in_two_processes(HELPERS / "one_of_several.py", [folder, runs])
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def assert_close(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> None:
    """Equal within a few roundings of float32, in which losses and rewards are kept."""
    for one, other in zip(untimed(ours), untimed(theirs), strict=True):
        assert one == pytest.approx(other, abs=1e-9, rel=1e-6)


def assert_same_gradients(folder: Path, index: int, kept: KeepGradients, tolerance: float = 1e-9) -> None:
    """Both processes applied these gradients, within roundings of float64, or of a loss that counts in fp32."""
    for rank in (0, 1):
        gradients = load_file(folder / f"{index}-rank{rank}.safetensors")
        assert gradients.keys() == kept.tensors().keys()
        for name, gradient in kept.tensors().items():
            assert (gradients[name] - gradient).abs().max() <= tolerance * max(1.0, float(gradient.abs().max()))


def test_two_processes_take_the_steps_of_one(tmp_path: Path, dealt: Path) -> None:
    """Same global batch, dealt to two processes with two accumulated batches of several passes each, in float64."""
    for index, changes in enumerate(CHANGES):
        kept = KeepGradients()
        run = trainer(tmp_path, warm_model().double(), callbacks=[kept], **{**WHOLE, **changes})
        run.train()
        assert bool(kept.second) == ("sft_learning_rate" in changes)
        assert_same_gradients(dealt, index, kept)
        for rank in (0, 1):
            logs = json.loads((dealt / f"{index}-rank{rank}.json").read_text())
            assert len(logs) == 3
            assert_close(logs, run.state.log_history)


@pytest.mark.parametrize(("index", "changes"), [(0, JUDGED), (1, GUARDED)])
def test_judged_draws_of_two_processes_are_those_of_one(
    tmp_path: Path, dealt: Path, index: int, changes: dict[str, Any]
) -> None:
    """What is drawn at a state, and into what part it is dealt, is a matter of its problem and its place there."""
    kept = KeepGradients()
    options = {**changes, "per_device_train_batch_size": 8}
    trainer(tmp_path, warm_model().double(), callbacks=[kept], **options).train()
    assert len(kept.first) == JUDGED["max_steps"]
    assert all(any(bool(gradient.any()) for gradient in step) for step in kept.first)
    assert_same_gradients(dealt, len(CHANGES) + index, kept)


def test_two_processes_mask_as_one_does(tmp_path: Path, dealt: Path) -> None:
    """A puzzle's mask is a matter of the seed, the step and its number in the global batch."""
    kept = KeepGradients()
    options = {**SFT, "per_device_train_batch_size": 8}
    del options["kind"]
    sft_trainer(tmp_path, warm_model().double(), callbacks=[kept], **options).train()
    assert_same_gradients(dealt, len(CHANGES) + 2, kept, 1e-6)


def test_what_torch_draws_in_a_pass_is_each_processs_own() -> None:
    """Dropout, say: all processes begin with one seed, and go on alike."""

    def drawn(rank: int, world_size: int = 2) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        args = SimpleNamespace(world_size=world_size, process_index=rank, device=torch.device("cpu"))
        with CheckedTrainer._own_noise(SimpleNamespace(args=args)):  # type: ignore[arg-type]
            inside = torch.rand(4)
        return inside, torch.rand(4)

    (one, after_one), (other, after_other) = drawn(0), drawn(1)
    assert not torch.equal(one, other) and torch.equal(after_one, after_other)
    assert torch.equal(one, drawn(0)[0])
    torch.manual_seed(0)
    assert torch.equal(torch.cat(drawn(0, 1)), torch.rand(8, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize(
    "dealt",
    [
        {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2},
        {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8, "max_tokens_per_pass": 150},
    ],
)
@pytest.mark.parametrize(
    "changes", [{}, {"state_fraction": 0.5}, JUDGED], ids=["all states", "drawn states", "judged decisions"]
)
def test_accumulation_and_passes_change_nothing(tmp_path: Path, dealt: dict[str, int], changes: dict[str, Any]) -> None:
    whole, parts = KeepGradients(), KeepGradients()
    options = {**changes, "max_grad_norm": 0.0, "per_device_train_batch_size": 8}
    one = trainer(tmp_path, warm_model().double(), callbacks=[whole], **{**WHOLE, **options})
    one.train()
    other = trainer(tmp_path, warm_model().double(), callbacks=[parts], **{**WHOLE, **options, **dealt})
    other.train()
    for step, other_step in zip(whole.first, parts.first, strict=True):
        for theirs, ours in zip(step, other_step, strict=True):
            assert (ours - theirs).abs().max() <= 1e-9 * max(1.0, float(theirs.abs().max()))
    assert_close(other.state.log_history, one.state.log_history)


def test_number_of_processes_is_held_against_the_launchers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    check_processes(1)
    check_processes(1, 1)
    with pytest.raises(RuntimeError, match="WORLD_SIZE is 1 but training sees 2"):
        check_processes(2)
    with pytest.raises(RuntimeError, match=r"sees 1 processes, not the expected 2; start with torchrun"):
        check_processes(1, 2)
    monkeypatch.setenv("WORLD_SIZE", "2")
    check_processes(2, 2)
    with pytest.raises(RuntimeError, match="WORLD_SIZE is 2 but training sees 1"):
        check_processes(1)


def test_trainer_refuses_to_train_alone_in_a_launch_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="not the expected 2"):
        trainer(tmp_path, expected_processes=2)
    chosen = arguments(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="WORLD_SIZE is 2"):
        UnmaskTrainer(warm_model(), chosen, puzzles(8), sudoku_task())
