"""Run folders: no run is lost unless that is asked for, and then nothing but the run."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from llm_rl.training.output_folder import RunFolder, parts_of_run
from llm_rl.training.run_folder import LOCK, run_lock
from tests.llm_rl.training.test_command_line import refusal


@dataclass
class Arguments:
    """The arguments that a script that trains has."""

    output_dir: str
    overwrite_output_dir: bool = False
    resume_from_checkpoint: str | None = None


@pytest.fixture
def choose(monkeypatch, tmp_path):
    """Choose a folder, given or not, below the test's own."""

    def chosen(name: str | None = None, inputs: tuple[Path, ...] = (), **options: object) -> RunFolder:
        monkeypatch.setattr(sys, "argv", ["train.py", *([] if name is None else ["--output_dir", name])])
        return RunFolder(Arguments(str(tmp_path / (name or "default")), **options), inputs)

    return chosen


def make_run(folder: Path) -> Path:
    """A folder as the scripts leave it."""
    for name in (
        "arguments.json", "metrics.jsonl", "curve_rl.jsonl", "table.csv", "solved.png", "decode.gif", "rl/config.json",
        "sft/seed0/checkpoint-4/model.safetensors", "sft/seed0/model/config.json", "sft/seed0/result.json",
        "sft/seed0/outcomes.npz", "sft/seed0/log.txt", "base/seed0/outcomes.partial.npz",
        "checkpoint-4/model.safetensors", "checkpoint-8/model.safetensors", "partial/checkpoint-9/model.safetensors",
        "checkpoints/checkpoint-2/trainer_state.json", "runs/a_host/events.out.tfevents.1", "failed_step-3/x",
    ):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("old")
    return folder


def test_a_second_run_takes_the_next_number_and_says_so(choose, capsys, tmp_path):
    assert choose().open({"seed": 0}) == tmp_path / "default"
    assert capsys.readouterr().out == f"Run folder: {tmp_path / 'default'}\n"
    for number in (2, 3):
        folder = choose().open({"seed": number})
        assert folder == tmp_path / f"default-{number}"
        assert json.loads((folder / "arguments.json").read_text()) == {"seed": number}
        assert f"Run folder: {folder} (" in capsys.readouterr().out.splitlines()[0]
    assert json.loads((tmp_path / "default" / "arguments.json").read_text()) == {"seed": 0}


def test_numbers_skip_what_is_no_run_and_never_go_back(choose, tmp_path):
    make_run(tmp_path / "default-2")
    (tmp_path / "default-3").mkdir()
    (tmp_path / "default-old").mkdir()
    assert choose().path == tmp_path / "default-4"
    assert choose(resume_from_checkpoint="last").path == tmp_path / "default-2"


def test_a_folder_that_was_named_and_holds_a_run_is_refused_with_the_remedies(choose, capsys, tmp_path):
    make_run(tmp_path / "mine")
    found = refusal(capsys, lambda: choose("mine"))
    assert all(word in found for word in ("--overwrite_output_dir", "--resume_from_checkpoint last", "--output_dir"))
    for file in ("metrics.jsonl", "table.csv"):
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other" / file).write_text("")
        assert "holds a run" in refusal(capsys, lambda: choose("other"))
        (tmp_path / "other" / file).unlink()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    assert choose("other").path == tmp_path / "other"


def test_overwriting_removes_the_run_and_nothing_else(choose, tmp_path):
    run = make_run(tmp_path / "mine")
    kept = {"notes.txt", "rl.txt", "runs/notes.txt", "data/puzzles.jsonl", "control/notes.txt", "checkpoint-best/model"}
    for name in kept:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("mine")
    folder = choose("mine", overwrite_output_dir=True)
    assert (run / "table.csv").exists()  # not before the start
    folder.open({"seed": 1})
    left = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file() and path.name != LOCK}
    assert left == {*kept, "arguments.json"} and "seed" in (run / "arguments.json").read_text()
    assert [path.name for path in parts_of_run(run)] == ["arguments.json"]


def test_a_run_that_is_under_way_is_not_overwritten(choose, capsys, tmp_path):
    run = make_run(tmp_path / "mine")
    folder = choose("mine", overwrite_output_dir=True)
    capsys.readouterr()
    with run_lock(run / "checkpoints"):
        assert "is in use by process" in refusal(capsys, lambda: folder.open({"seed": 1}))
    assert (run / "rl" / "config.json").exists() and (run / "arguments.json").read_text() == "old"


def test_what_may_not_be_a_run_or_is_needed_is_not_overwritten(choose, capsys, tmp_path):
    run = make_run(tmp_path / "mine")
    found = refusal(capsys, lambda: choose("mine", (run / "rl",), overwrite_output_dir=True))
    assert f"{run / 'rl'} is needed" in found
    (run / "arguments.json").unlink()
    assert "has no arguments.json" in refusal(capsys, lambda: choose("mine", overwrite_output_dir=True))
    assert (run / "rl" / "config.json").exists()
    both = {"overwrite_output_dir": True, "resume_from_checkpoint": "last"}
    assert "choose one of them" in refusal(capsys, lambda: choose("mine", **both))


def test_the_last_run_is_the_newest_one(choose, capsys, tmp_path):
    for name in ("default", "default-2", "default-10"):
        make_run(tmp_path / name)
    folder = choose(resume_from_checkpoint="last")
    assert folder.path == tmp_path / "default-10" and "(resumed)" in capsys.readouterr().out
    assert (folder.open({"seed": 9}) / "arguments.json").read_text() == "old"
    assert choose("default-2", resume_from_checkpoint="last").path == tmp_path / "default-2"


def test_the_last_run_of_none_is_a_new_one(choose, capsys, tmp_path):
    folder = choose(resume_from_checkpoint="last")
    assert folder.open({"seed": 0}) == tmp_path / "default" and "a new one" in capsys.readouterr().out
    assert json.loads((tmp_path / "default" / "arguments.json").read_text()) == {"seed": 0}


def test_a_checkpoint_continues_its_own_run_or_begins_another(choose, capsys, tmp_path):
    make_run(tmp_path / "default")
    checkpoint = str(make_run(tmp_path / "default-2") / "checkpoint-4")
    assert choose(resume_from_checkpoint=checkpoint).path == tmp_path / "default-2"
    assert choose("default-2", resume_from_checkpoint=checkpoint).path == tmp_path / "default-2"
    assert choose("elsewhere", resume_from_checkpoint=checkpoint).path == tmp_path / "elsewhere"
    capsys.readouterr()
    assert "holds a run" in refusal(capsys, lambda: choose("default", resume_from_checkpoint=checkpoint))


def test_a_folder_that_another_run_took_meanwhile_is_not_shared(choose, capsys, tmp_path):
    first, second = choose("mine"), choose("mine")
    capsys.readouterr()
    first.open({"seed": 1})
    assert "mine" in refusal(capsys, lambda: second.open({"seed": 2}))
    assert json.loads((tmp_path / "mine" / "arguments.json").read_text()) == {"seed": 1}
