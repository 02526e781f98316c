import errno
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers.trainer_utils import get_last_checkpoint

import llm_rl.training.checkpoint
from dllm_rl.training.trainer import UnmaskTrainer
from llm_rl.training.errors import CheckpointError
from llm_rl.training.manifest import check_manifest
from sudoku_dllm.kill_test.resume import check_resume
from tests.dllm_rl.helpers.killable import play
from tests.dllm_rl.helpers.tiny_training import trained, trainer, untimed, warm_model
from tests.helpers.warm_process import SERVER

Result = tuple[list[dict[str, Any]], dict[str, torch.Tensor]]
SAVING: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1}


class Killed(BaseException):
    """Ends a run where it stands, as a kill would; no `except Exception` sees it."""


def status(folder: Path, **changes: Any) -> int | None:
    """With which a process of its own ends."""
    process = SERVER.Process(target=play, args=(folder, warm_model().state_dict()), kwargs=changes)
    process.start()
    process.join(600)
    return process.exitcode


def result_of(folder: Path) -> Result:
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return untimed(metrics), load_file(folder / "final" / "model.safetensors")


def assert_equal(ours: Result, theirs: Result) -> None:
    assert ours[0] == theirs[0] and ours[1].keys() == theirs[1].keys()
    assert all(torch.equal(value, theirs[1][name]) for name, value in ours[1].items())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    play(folder, warm_model().state_dict())
    result = result_of(folder)
    assert [line["step"] for line in result[0]] == [5, 8]
    return result


def kill_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int, after: bool) -> None:
    """End the run before or after the given call of a function."""
    original, count = getattr(owner, name), 0

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count == call and not after:
            raise Killed
        value = original(*args, **kwargs)
        if count == call:
            raise Killed
        return value

    monkeypatch.setattr(owner, name, counting)


@pytest.mark.parametrize(
    ("owner", "name", "call", "after"),
    [
        pytest.param(UnmaskTrainer, "training_step", 11, True, id="between two accumulated batches"),
        pytest.param(UnmaskTrainer, "log", 1, True, id="after a log line, before its checkpoint"),
        pytest.param(UnmaskTrainer, "save_model", 3, True, id="with the weights alone on the disk"),
        pytest.param(UnmaskTrainer, "_save_rng_state", 4, True, id="with half a checkpoint on the disk"),
        pytest.param(llm_rl.training.checkpoint, "put_in_place", 5, False, id="before the rename"),
        pytest.param(llm_rl.training.checkpoint, "put_in_place", 5, True, id="after the rename"),
        pytest.param(llm_rl.training.checkpoint.shutil, "rmtree", 8, False, id="before the older one is deleted"),
    ],
)
def test_a_run_goes_on_exactly_from_where_it_was_killed(tmp_path, monkeypatch, whole, owner, name, call, after) -> None:
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, owner, name, call, after)
        play(tmp_path, warm_model().state_dict())
    torch.manual_seed(99)
    play(tmp_path, warm_model().state_dict())
    assert_equal(result_of(tmp_path), whole)
    assert not (tmp_path / "partial").exists()
    assert sorted(path.name for path in tmp_path.glob("*checkpoint*")) == ["checkpoint-7", "checkpoint-8"]


@pytest.mark.slow
def test_processes_killed_at_random_points_end_as_if_nothing_had_happened(tmp_path) -> None:
    report = check_resume(partial(play, weights=warm_model().state_dict()), tmp_path, kills=6, seed=4, timeout=600)
    assert report.passed, str(report)
    assert len(report.kills) >= 3 and any(kill.phase == "saving" for kill in report.kills)
    assert report.comparison.parts["log"].files == 3  # two checkpoints, one of metrics


class FullDisk:
    """Lets so many writes of a checkpoint's files pass, then reports a full disk in the words of the given library."""

    def __init__(self, passing: int, error: Exception) -> None:
        self.left, self.error = passing, error

    def guard(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def writing(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise self.error
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, writing)


@pytest.mark.parametrize("passing", [6, 9, 11])
def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch, whole, passing) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    disk = FullDisk(passing, RuntimeError("PytorchStreamWriter failed") if passing % 2 else full)
    told = r"checkpoint-2 could not .* free space .*checkpoint-1"
    with monkeypatch.context() as patch, pytest.raises(CheckpointError, match=told) as caught:
        disk.guard(patch, torch, "save")
        for name in ("save_record", "put_in_place"):
            disk.guard(patch, llm_rl.training.checkpoint, name)
        play(tmp_path, warm_model().state_dict())
    assert caught.value.__cause__ is disk.error
    assert get_last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-1") and not (tmp_path / "partial").exists()
    play(tmp_path, warm_model().state_dict())
    assert_equal(result_of(tmp_path), whole)


def test_a_real_process_that_may_not_write_large_files(tmp_path, whole) -> None:
    """Files of at most 40 kB: room for the log lines, not for a model or its optimizer."""
    assert status(tmp_path, max_steps=1) == 0
    shutil.rmtree(tmp_path / "final")
    assert status(tmp_path, file_limit=40_000) == 1
    assert [path.name for path in tmp_path.glob("*checkpoint*")] == ["checkpoint-1"]
    assert not (tmp_path / "partial").exists()


def test_without_an_older_checkpoint_a_full_disk_means_starting_again(tmp_path, monkeypatch) -> None:
    FullDisk(0, OSError(errno.ENOSPC, "No space left on device")).guard(monkeypatch, torch, "save")
    with pytest.raises(CheckpointError, match="start again"):
        trained(tmp_path, **SAVING)


def test_leftovers_are_ignored_by_resuming_and_cleaned_by_the_next_save(tmp_path) -> None:
    trained(tmp_path, max_steps=1, **SAVING)
    (tmp_path / "partial" / "checkpoint-9").mkdir(parents=True)
    run = trainer(tmp_path, max_steps=2, **SAVING)
    run.train(resume_from_checkpoint=True)
    assert [line["step"] for line in run.state.log_history] == [1, 2, 2]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["checkpoint-1", "checkpoint-2"]


def test_saving_a_step_again_replaces_its_checkpoint(tmp_path) -> None:
    first = trained(tmp_path, max_steps=2, **SAVING)
    written = (tmp_path / "checkpoint-2" / "manifest.json").stat().st_ino
    again = trainer(tmp_path, max_steps=2, **SAVING)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["checkpoint-1", "checkpoint-2"]
    assert (tmp_path / "checkpoint-2" / "manifest.json").stat().st_ino != written
    check_manifest(tmp_path / "checkpoint-2")
    assert untimed(again.state.log_history) == untimed(first.state.log_history)


def test_a_checkpoint_that_cannot_be_continued_exactly_is_refused(tmp_path) -> None:
    trained(tmp_path, max_steps=1, **SAVING, save_only_model=True)
    with pytest.raises(CheckpointError, match=r"cannot be continued exactly, .*progress_0"):
        trainer(tmp_path, max_steps=2).train(resume_from_checkpoint=True)
    saved = {"processes": 3, "loss": 0.0, "total_loss": 0.0, "last_logged_step": 0, "seconds": 0.0}
    with pytest.raises(CheckpointError, match=r"written by 3 processes .* by 1; start as many"):
        trainer(tmp_path).load_progress(saved)
