import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from llm_rl.training.checked import CheckedTrainer
from llm_rl.training.processes import check_processes
from tests.dllm_rl.helpers.tiny_training import KeepGradients, arguments, sft_trainer, trainer, untimed, warm_model
from tests.helpers.refusals import refused
from tests.helpers.warm_process import run_in_two_processes

SCRIPT = Path(__file__).parents[1] / "helpers" / "one_of_several.py"
Settings = dict[str, Any]
COMMON: Settings = {"max_steps": 4, "count": 16, "logging_steps": 2, "learning_rate": 3e-3, "optim": "sgd"}
COMMON["advantage_scale"] = "none"  # dividing by a small spread would magnify rounding
WHOLE, HALF, QUARTER = ({"per_device_train_batch_size": size} for size in (8, 4, 2))
DEALT = {**QUARTER, "gradient_accumulation_steps": 2, "max_tokens_per_pass": 150}
NO_CLIP = {"max_grad_norm": 0.0}
OWN = {"policy_weight": 0.0, "f_weight": 0.0, "num_mini_batches": 2, **NO_CLIP}
JUDGED: Settings = {**COMMON, **OWN, "judged_weight": 1.0, "judged_draws": 8, "on_error": "redraw"}
KEPT = {"ce_weight": 0.5, "ce_target": "own", "kept_weight": 1.0, "on_error": "guard", "num_generations": 1}
SFT: Settings = {"kind": "sft", "max_steps": 3, "count": 16, "learning_rate": 3e-3, "optim": "sgd", **NO_CLIP}
RUNS: dict[str, tuple[Settings, Settings]] = {
    # Two accumulated batches of several passes each.
    "ratios": ({**COMMON, **NO_CLIP, "num_iterations": 2, "advantage_baseline": "leave_one_out"}, DEALT),
    "two rates": ({**COMMON, "rl_learning_rate": 3e-3, "sft_learning_rate": 1e-3, "max_grad_norm": 0.05}, DEALT),
    "f": ({**COMMON, "policy_weight": 0.0, "f_form": "log", "num_iterations": 2, "num_generations": 1}, DEALT),
    # A step on half of the states of four puzzles: what is drawn at a state, and into what part it is dealt, is a
    # matter of its problem and its place there.
    "judged": (JUDGED, HALF),
    "guarded": ({**COMMON, **OWN, **KEPT, "judged_draws": 4, "tokens_per_step": 18}, HALF),
    # A puzzle's mask is a matter of the seed, the step and its number in the global batch.
    "supervised": (SFT, {**QUARTER, "gradient_accumulation_steps": 2}),
}
"""Of each run what it does on eight puzzles, and what each of two processes takes of it."""


@pytest.fixture(scope="module")
def dealt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes did with all of `RUNS`."""
    folder = tmp_path_factory.mktemp("dealt")
    runs = {name: {**run, **own} for name, (run, own) in RUNS.items()}
    done = run_in_two_processes(SCRIPT, [folder, json.dumps(runs)])
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def played(folder: Path, **settings: Any) -> tuple[Any, KeepGradients]:
    """A run of a double-precision model in this process, and its gradients."""
    kept, make = KeepGradients(), sft_trainer if settings.pop("kind", None) else trainer
    run = make(folder, warm_model().double(), callbacks=[kept], **settings)
    run.train()
    return run, kept


def assert_close(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> None:
    """Equal within a few roundings of float32, in which losses and rewards are kept."""
    for one, other in zip(untimed(ours), untimed(theirs), strict=True):
        assert one == pytest.approx(other, abs=1e-9, rel=1e-6)


def assert_same_gradients(found: dict[str, Tensor], kept: KeepGradients, tolerance: float = 1e-9) -> None:
    """Within roundings of float64, or of a loss that counts in fp32."""
    assert found.keys() == kept.tensors().keys()
    for name, gradient in kept.tensors().items():
        assert (found[name] - gradient).abs().max() <= tolerance * max(1.0, float(gradient.abs().max()))


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_take_the_steps_of_one(tmp_path, dealt, name) -> None:
    """Of the same global batch, in float64."""
    settings, _ = RUNS[name]
    run, kept = played(tmp_path, **settings, **WHOLE)
    assert bool(kept.second) == ("sft_learning_rate" in settings) and len(kept.first) == settings["max_steps"]
    assert all(any(bool(gradient.any()) for gradient in step) for step in kept.first)
    for rank in (0, 1):
        found = load_file(dealt / f"{name}-rank{rank}.safetensors")
        assert_same_gradients(found, kept, 1e-6 if name == "supervised" else 1e-9)
        if "advantage_scale" in settings:
            assert_close(json.loads((dealt / f"{name}-rank{rank}.json").read_text()), run.state.log_history)


def test_what_torch_draws_in_a_pass_is_each_processs_own() -> None:
    """Dropout, say: all processes begin with one seed, and go on alike."""

    def drawn(rank: int, world_size: int = 2) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        args = SimpleNamespace(world_size=world_size, process_index=rank, device=torch.device("cpu"))
        with CheckedTrainer._own_noise(SimpleNamespace(args=args)):
            inside = torch.rand(4)
        return inside, torch.rand(4)

    (one, after_one), (other, after_other) = drawn(0), drawn(1)
    assert not torch.equal(one, other) and torch.equal(after_one, after_other)
    assert torch.equal(one, drawn(0)[0])
    torch.manual_seed(0)
    assert torch.equal(torch.cat(drawn(0, 1)), torch.rand(8, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize(("size", "budget"), [(4, {}), (1, {"max_tokens_per_pass": 150})])
@pytest.mark.parametrize(
    "changes", [{}, {"state_fraction": 0.5}, JUDGED], ids=["all states", "drawn states", "judged decisions"]
)
def test_accumulation_and_passes_change_nothing(tmp_path, size, budget, changes) -> None:
    options = {**COMMON, **changes, **NO_CLIP}
    dealt = {"per_device_train_batch_size": size, "gradient_accumulation_steps": 8 // size, **budget}
    one, whole = played(tmp_path, **options, **WHOLE)
    other, parts = played(tmp_path, **options, **dealt)
    assert_same_gradients(parts.tensors(), whole)
    assert_close(other.state.log_history, one.state.log_history)


def test_number_of_processes_is_held_against_the_launchers(monkeypatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    check_processes(1)
    check_processes(1, 1)
    refused("WORLD_SIZE is 1 but training sees 2", lambda: check_processes(2), RuntimeError)
    refused(r"sees 1 processes, not the expected 2; start with torchrun", lambda: check_processes(1, 2), RuntimeError)
    monkeypatch.setenv("WORLD_SIZE", "2")
    check_processes(2, 2)
    refused("WORLD_SIZE is 2 but training sees 1", lambda: check_processes(1), RuntimeError)


def test_trainer_refuses_to_train_alone_in_a_launch_of_two(tmp_path, monkeypatch) -> None:
    refused("not the expected 2", lambda: trainer(tmp_path, expected_processes=2), RuntimeError)
    args = arguments(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused("WORLD_SIZE is 2", lambda: trainer(tmp_path, args=args), RuntimeError)
