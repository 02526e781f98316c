"""What `BufferedTrainer` does for every trainer on it; their own tests show the rest."""

from pathlib import Path
from typing import Any

import pytest
import torch

from llm_rl.grpo.trainer import GRPOTrainer
from llm_rl.training.arguments import RunArguments
from llm_rl.training.buffered import BufferedTrainer
from llm_rl.training.checkpoint import ExactTrainer
from llm_rl.training.errors import CheckpointError
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.tiny_grpo import SAVING, arguments, trainer
from tests.llm_rl.helpers.watch import trained


class Counting(BufferedTrainer):
    """Three batches of two rows make a roll-out, which serves two optimizer steps of three micro-batches."""

    _rows_per_batch, _batches_per_rollout = 2, 3

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, data_collator=list)
        self.seen: list[tuple[int, list[Any]]] = []

    def _make_rollout(self, model: torch.nn.Module, inputs: Any) -> list[Any]:
        return [inputs]

    def _train_on_buffer(self, model: torch.nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        self.seen.append((self._step, list(self._buffered_inputs)))
        return torch.zeros(())


class SixUses(RunArguments):
    steps_per_rollout = 2


def test_a_buffer_is_filled_batch_by_batch_and_kept_for_all_its_updates(tmp_path: Path) -> None:
    args = SixUses(
        str(tmp_path), max_steps=4, gradient_accumulation_steps=3, use_cpu=True, report_to="none", save_strategy="no"
    )
    run = trained(Counting(torch.nn.Linear(1, 1), args, list(range(12))))
    assert [step for step, _ in run.seen] == [*range(6)] * 2
    for first in (0, 6):
        whole = run.seen[first + 2][1]
        assert [kept for _, kept in run.seen[first : first + 6]] == [whole[:1], whole[:2], *[whole] * 4]
    order = [row for first in (0, 6) for batch in run.seen[first + 2][1] for row in batch]
    assert sorted(order) == list(range(12)) and run.progress()["buffered_inputs"] == []


def test_what_a_subclass_must_say(tmp_path: Path) -> None:
    run = BufferedTrainer(torch.nn.Linear(1, 1), SixUses(str(tmp_path), use_cpu=True, report_to="none"), [1, 2])
    refused("BufferedTrainer has no _rows_per_batch", lambda: run.train(), NotImplementedError)
    refused("BufferedTrainer has no _make_rollout", lambda: run.training_step(run.model, None), NotImplementedError)


def test_sharding_by_accelerate_is_refused_even_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = GRPOTrainer.create_accelerator_and_postprocess

    def create_with_fsdp(self: Any) -> None:
        create(self)
        self.is_fsdp_enabled = True

    monkeypatch.setattr(GRPOTrainer, "create_accelerator_and_postprocess", create_with_fsdp)
    refused(r"not supported by GRPOTrainer.*leave out fsdp, and start with torchrun", lambda: trainer(tmp_path))


def test_several_devices_in_one_process_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(arguments(tmp_path)), "n_gpu", property(lambda self: 2))
    refused("one process sees 2 devices", lambda: trainer(tmp_path))


def test_a_checkpoint_of_another_version_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(BufferedTrainer, "progress", ExactTrainer.progress)
        trainer(tmp_path, **SAVING).train()
    with pytest.raises(CheckpointError, match=r"checkpoint-1 was written by another version, .*'metrics'"):
        trainer(tmp_path, **SAVING, max_steps=2).train(resume_from_checkpoint="last")
