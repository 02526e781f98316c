"""Which run a checkpoint belongs to, whether it is whole, and who may write to its folder."""

import hashlib
import json
import logging
import multiprocessing
import os
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from dllm_rl.sft import SftDataset
from dllm_rl.training.trainer import UnmaskTrainer
from llm_rl.training.errors import CheckpointError
from llm_rl.training.identity import fingerprint
from llm_rl.training.manifest import write_manifest
from llm_rl.training.run_folder import run_lock
from tests.dllm_rl.helpers.tiny_training import logged, puzzles, sft_trainer, sudoku_task, trained, trainer, untimed
from tests.helpers.refusals import refused

SAVING: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps with a checkpoint after each, to be copied."""
    folder = tmp_path_factory.mktemp("saved")
    trained(folder, **SAVING)
    return folder


@pytest.fixture
def run_folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "run"))


def continued(folder: Path, start: Path | str = "last", **settings: Any) -> UnmaskTrainer:
    """A run that went on from a checkpoint."""
    run = trainer(folder, **settings)
    run.train(resume_from_checkpoint=str(start))
    return run


def no_step(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("a step was taken")


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        pytest.param(trainer, {"max_steps": 3, "logging_steps": 2, "lr_scheduler_type": "cosine"}, id="in an epoch"),
        pytest.param(trainer, {"max_steps": 4, "logging_steps": 3}, id="at an epoch's end"),
        pytest.param(trainer, {"max_steps": -1, "num_train_epochs": 1, "eval_on_start": False}, id="by epochs"),
        pytest.param(sft_trainer, {"max_steps": 3}, id="supervised"),
    ],
)
def test_a_run_that_has_ended_takes_no_further_step(tmp_path, monkeypatch, make, settings) -> None:
    first = make(tmp_path, **{**SAVING, **settings})
    ended = first.train()
    assert ended.training_loss != 0
    again = make(tmp_path, **{**SAVING, **settings})
    with monkeypatch.context() as patch:
        patch.setattr(type(again), "training_step", no_step)
        found = again.train(resume_from_checkpoint="last")
    assert (found.global_step, found.training_loss) == (ended.global_step, ended.training_loss)
    assert untimed(again.state.log_history) == untimed(first.state.log_history)
    assert all(torch.equal(value, again.model.state_dict()[name]) for name, value in first.model.state_dict().items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 1e-2}, r"learning_rate is 0.01, was 0.001; .*resume_with_changes"),
        ({"gamma": 0.5}, r"gamma is 0.5, was 0.95"),
        ({"count": 9}, r"train_dataset is '\w+', was '\w+'"),
        ({"task": replace(sudoku_task(), rule="pairs")}, r"task is \['SudokuTask', .*'pairs'.* was .*'singles'"),
        ({"lr_scheduler_type": "cosine", "max_steps": 3}, r"lr_scheduler_type is 'cosine', .*max_steps is 3, was 2"),
        ({"max_steps": 3, "position_temperature_end": 0.5}, r"max_steps is 3, was 2"),
        ({"optim": "sgd", "resume_with_changes": True}, r"another kind of optimizer than sgd; start a new run"),
    ],
)
def test_a_run_does_not_go_on_as_another(run_folder, change, message) -> None:
    refused(message, lambda: continued(run_folder, **{**SAVING, **change}), CheckpointError)


def test_what_changes_no_mathematics_is_said(run_folder, caplog) -> None:
    changes = {"max_steps": 3, "logging_steps": 3, "max_tokens_per_pass": 4096}
    with caplog.at_level(logging.WARNING, "llm_rl"):
        assert continued(run_folder, **{**SAVING, **changes}).state.global_step == 3
    for said in ("max_steps: 2, now 3", "logging_steps: 1, now 3", "max_tokens_per_pass: 65536, now 4096"):
        assert said in caplog.text


@pytest.mark.parametrize("rates", [{}, {"sft_learning_rate": 2e-3}])
def test_asked_for_changes_act(tmp_path, rates) -> None:
    trained(tmp_path, **SAVING, lr_scheduler_type="linear", **rates)
    changes = {"learning_rate": 5e-3, "adam_beta2": 0.9, "weight_decay": 0.1, "gamma": 0.5, "max_steps": 4}
    run = continued(tmp_path, **{**SAVING, **changes}, lr_scheduler_type="linear", resume_with_changes=True, **rates)
    assert logged(run, "learning_rate") == pytest.approx([1e-3, 5e-4, 2.5e-3, 1.25e-3])
    assert all(group["betas"][1] == 0.9 for group in run.optimizer.param_groups)
    assert run.optimizer.param_groups[0]["weight_decay"] == 0.1 and run.changed == changes.keys()


def test_changes_between_the_updates_on_a_roll_out_are_refused(tmp_path) -> None:
    settings, changes = {**SAVING, "num_iterations": 2}, {"num_generations": 2, "resume_with_changes": True}
    trained(tmp_path, **{**settings, "max_steps": 1})
    told = r"step 1 lies between the updates .*\['num_generations'\]"
    refused(told, lambda: continued(tmp_path, **settings, **changes), CheckpointError)
    shutil.rmtree(tmp_path)
    trained(tmp_path, **settings)
    assert continued(tmp_path, **{**settings, "max_steps": 4}, **changes).state.global_step == 4


def test_changes_do_not_mix_with_later_checkpoints_of_the_old_run(run_folder, tmp_path) -> None:
    changes, start = {**SAVING, "gamma": 0.5, "resume_with_changes": True}, run_folder / "checkpoint-1"
    told = r"holds checkpoint-2, which .* from checkpoint-1 would mix"
    refused(told, lambda: continued(run_folder, start, **changes), CheckpointError)
    assert continued(tmp_path / "other", start, **changes).state.global_step == 2


FILES = [
    "manifest.json", "model.safetensors", "optimizer.pt", "progress_0.json", "progress_0.safetensors", "rng_state.pth",
    "run.json", "scheduler.pt", "trainer_state.json", "training_args.bin",
]  # fmt: skip


def flip(path: Path) -> None:
    """Turn one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def test_every_file_that_resuming_reads_is_watched(saved) -> None:
    assert {path.name for path in (saved / "checkpoint-2").iterdir()} >= set(FILES)
    listed = json.loads((saved / "checkpoint-2" / "manifest.json").read_text())
    assert listed.keys() == {path.name for path in (saved / "checkpoint-2").iterdir()} - {"manifest.json"}


@pytest.mark.parametrize(
    ("name", "damage"),
    [*((name, flip) for name in FILES), *product(("manifest.json", "optimizer.pt"), (Path.unlink, cut))],
)
def test_damage_is_named_and_the_last_whole_checkpoint_taken(run_folder, caplog, name, damage) -> None:
    """Without training: the part that chooses where to start."""
    damage(run_folder / "checkpoint-2" / name)
    run = trainer(run_folder, **SAVING)
    run._settings = {"arguments": {}}
    with pytest.raises(CheckpointError) as caught:
        run._starting_point(run_folder, str(run_folder / "checkpoint-2"))
    with pytest.raises(CheckpointError, match="of a run with other settings"):  # so it got to the comparison of runs
        run._starting_point(run_folder, "last")
    for told in (str(caught.value), caplog.text):
        assert name in told and f"the last whole checkpoint is {run_folder / 'checkpoint-1'}" in told


def test_a_damaged_last_checkpoint_costs_its_steps_alone(saved, run_folder) -> None:
    flip(run_folder / "checkpoint-2" / "optimizer.pt")
    run = trainer(run_folder, **SAVING)
    run.train(resume_from_checkpoint=True)
    whole = json.loads((saved / "checkpoint-2" / "trainer_state.json").read_text())["log_history"]
    assert untimed(run.state.log_history)[:2] == untimed(whole)
    flip(run_folder / "checkpoint-1" / "optimizer.pt")
    flip(run_folder / "checkpoint-2" / "optimizer.pt")
    told = r"no checkpoint of .* is whole: .*checkpoint-2/optimizer.pt"
    refused(told, lambda: continued(run_folder, **SAVING), CheckpointError)


def test_files_that_are_whole_and_wrong_are_named(run_folder) -> None:
    """A checkpoint whose manifest was written anew after its optimizer was taken from another model."""
    torch.save({"state": {}, "param_groups": []}, run_folder / "checkpoint-2" / "optimizer.pt")
    write_manifest(run_folder / "checkpoint-2")
    told = r"checkpoint-2 cannot be loaded: ValueError: .*parameter group"
    refused(told, lambda: continued(run_folder, **{**SAVING, "max_steps": 3}), CheckpointError)


def test_a_fresh_run_leaves_old_checkpoints_alone_unless_asked(run_folder, tmp_path, caplog) -> None:
    one_step, told = {**SAVING, "max_steps": 1}, r"holds checkpoint-2 of an earlier run; .*overwrite_output_dir=True"
    refused(told, lambda: trained(run_folder, **SAVING), CheckpointError)
    assert (run_folder / "checkpoint-1").is_dir()
    both = trained(run_folder, **SAVING, overwrite_output_dir=True, resume_from_checkpoint="last")
    assert both.state.global_step == 2 and (run_folder / "checkpoint-1").is_dir(), "what goes on deletes nothing"
    trained(run_folder, **one_step, overwrite_output_dir=True, seed=8)
    assert [path.name for path in run_folder.glob("checkpoint-*")] == ["checkpoint-1"]
    fresh = continued(tmp_path / "new", **one_step)
    assert fresh.state.global_step == 1 and "no checkpoint yet: starting from the beginning" in caplog.text
    told = r"nowhere cannot be continued from: .* has no manifest.json"
    refused(told, lambda: continued(tmp_path / "new", tmp_path / "nowhere", **SAVING), CheckpointError)


def _hold(folder: Path, held: Any, done: Any) -> None:
    with run_lock(folder):
        held.set()
        done.wait(60)


def test_a_second_writer_is_told_who_holds_the_folder(tmp_path) -> None:
    context = multiprocessing.get_context("fork")
    held, done = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path, held, done))
    process.start()
    assert held.wait(60)
    run = trainer(tmp_path)
    refused(f"in use by process {process.pid} on .* since 20.*choose another", lambda: run.train(), CheckpointError)
    os.kill(process.pid, 9)
    process.join()
    run.train()
    assert run.state.global_step == 1


def test_a_folder_that_cannot_be_written_to_is_found_before_training(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    told = "file/run cannot be written to: Not a directory; choose another"
    refused(told, lambda: trainer(tmp_path / "file" / "run"), CheckpointError)


def test_weights_that_are_not_finite_are_not_saved(tmp_path, monkeypatch) -> None:
    run = trainer(tmp_path, **SAVING, save_total_limit=1)

    def break_weights(*args: Any, **kwargs: Any) -> Any:
        if run.state.global_step == 1:
            with torch.no_grad():
                next(run.model.parameters())[0, 0] = torch.nan
        return torch.tensor(0.0)

    monkeypatch.setattr(run, "forward_backward", break_weights)
    refused(r"weights are not finite, model\.\S+ among them", lambda: run.train(), FloatingPointError)
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-1"]


def test_a_fingerprint_sees_every_value() -> None:
    rows = [{"prompt": "a", "n": 1, "x": torch.tensor([1.0, 2.0])}, {"prompt": "b", "n": 2, "x": None}]
    same = [{"x": torch.tensor([1.0, 2.0]), "n": 1, "prompt": "a"}, {"prompt": "b", "n": 2, "x": None}]
    assert fingerprint(rows) == fingerprint(same)
    others = [
        rows[:1],
        rows[::-1],
        [{**rows[0], "x": torch.tensor([1.0, 2.5])}, rows[1]],
        [{**rows[0], "x": torch.tensor([1.0, 2.0], dtype=torch.float64)}, rows[1]],
        [{**rows[0], "n": True}, rows[1]],
        [{**rows[0], "prompt": "a "}, rows[1]],
    ]
    assert len({fingerprint(rows), *map(fingerprint, others)}) == 7
    assert fingerprint(iter(rows)) is None
    assert fingerprint([[1, 2]]) == fingerprint([range(1, 3)]) != fingerprint([[True, 2]])
    assert fingerprint(puzzles(4)) != fingerprint(puzzles(4, seed=2))


def test_a_fingerprint_reads_what_rows_share_once(monkeypatch) -> None:
    """Rows of an `SftDataset` share all problems, which would be read as often as there are rows."""
    problems = sudoku_task(with_tail=True).batch(puzzles(12))
    data = SftDataset(problems)
    read: list[int] = []
    whole = hashlib.sha256

    class Counting:
        def __init__(self, first: bytes) -> None:
            self.digest = whole(first)
            self.hexdigest = self.digest.hexdigest

        def update(self, more: bytes) -> None:
            read.append(len(more))
            self.digest.update(more)

    monkeypatch.setattr(hashlib, "sha256", Counting)
    found = fingerprint(data)
    rows = sum(tensor.nbytes for tensor in (data.input_ids, data.maskable, data.attention_mask))
    once = sum(tensor.nbytes for tensor in (problems.prompt_ids, problems.responses, problems.answers))
    assert rows + once < sum(read) < rows + 3 * once + 12 * 1000
    problems.answers[0, 0] += 1
    assert fingerprint(data) != found


class AlreadyOver(TrainerCallback):
    """Ends a run before its first step, as a budget does that was spent before a restart."""

    def on_train_begin(self, args, state, control, **kwargs):
        control.should_training_stop = True


def test_a_callback_may_end_a_run_before_its_first_step(run_folder) -> None:
    assert continued(run_folder, **{**SAVING, "max_steps": 5}, callbacks=[AlreadyOver()]).state.global_step == 2
