"""Models by the size of a puzzle, and folders of models that are not what they should be."""

import json
import os
import shutil
import socket
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from dllm_rl import STRATEGIES, load, shipped_models
from dllm_rl.models.shipped import model_folder
from llm_rl.training.budget import Budget
from sudoku_dllm.__main__ import main
from sudoku_dllm.demo.serve import page_server
from sudoku_dllm.labels.arm import Labels
from sudoku_dllm.models import STRATEGIES as STRATEGY_NAMES
from sudoku_dllm.models import record_sizes, shipped_sizes, sizes_of
from sudoku_dllm.trials.jobs import Job
from tests.helpers.refusals import refused
from tests.sudoku_dllm.test_labels import setting
from tests.sudoku_dllm.test_refused_words import refusal

FOUR, SIX = "1..4..1221...3..", "43265165123..243163..42524516..6.5.2"
NINE = "53467891267219534819834256785976142342685379171392485696153728428741963534528617."
WEIGHTS, CONFIG = "model.safetensors", "config.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a shipped model."""
    return Path(shutil.copytree(model_folder("llada-sudoku6x6"), tmp_path / "own"))


def configure(folder: Path, **changed: object) -> None:
    """Write a configuration with other entries, None for without."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8")) | changed
    kept = {key: value for key, value in config.items() if value is not None}
    (folder / CONFIG).write_text(json.dumps(kept), encoding="utf-8")


def test_what_is_told_without_torch_is_what_torch_has() -> None:
    assert list(shipped_sizes()) == shipped_models() and list(STRATEGY_NAMES) == list(STRATEGIES)
    assert {name: sizes for name, sizes in shipped_sizes().items() if sizes != [6]} == {"llada-sudoku9x9": [9]}


def test_the_model_is_chosen_by_the_size_of_each_puzzle(capsys) -> None:
    assert main(["decode", SIX, NINE]) == 0
    assert capsys.readouterr().out.count("\nsolved in ") == 2


def test_a_puzzle_of_another_size_than_the_models_is_refused(folder, capsys) -> None:
    told = refusal(capsys, "decode", SIX, FOUR)
    assert "no model for 4×4 ships with the package, but llada-sudoku6x6 (6×6), " in told and "(9×9)" in told
    told = refusal(capsys, "decode", "--model", "llada-sudoku6x6", SIX, NINE)
    assert "llada-sudoku6x6 is a model for 6×6 and a puzzle is 9×9: use llada-sudoku9x9" in told
    told = refusal(capsys, "decode", "--model", str(folder), FOUR)
    assert f"{folder} is a model for 6×6 and a puzzle is 4×4: no model for 4×4 ships with the package" in told
    assert "if it was trained on 4×4, write 4 into board_sizes of its config.json" in told
    configure(folder, board_sizes="6")
    told = refusal(capsys, "decode", "--model", str(folder), SIX)
    assert f"board_sizes in config.json of {folder} must be a list of numbers, e.g. [6], not '6'" in told


def test_a_model_that_tells_no_size_is_given_what_its_tokenizer_was_made_for(folder, capsys) -> None:
    configure(folder, board_sizes=None)
    assert "is a model for 6×6 and a puzzle is 4×4" in refusal(capsys, "decode", "--model", str(folder), FOUR)
    model, tokenizer = load(str(folder))
    assert sizes_of("own", model.config, tokenizer) == [6]
    assert sizes_of("own", model.config, object()) is None
    configure(folder, board_sizes=[4, 6])
    assert main(["decode", "--model", str(folder), FOUR]) in (0, 1)


def test_a_size_that_is_recorded_is_saved_with_the_model(folder) -> None:
    model, tokenizer = load(str(folder))
    record_sizes(model, [9, 4, 9])
    model.save_pretrained(folder)
    assert sizes_of("own", load(str(folder)).model.config, tokenizer) == [4, 9]


def store(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


def not_finite(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["model.transformer.wte.weight"][3, 3] = torch.nan
    store(folder, weights)


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


def incomplete(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    del weights["model.transformer.ff_out.weight"]
    store(folder, weights)


def cut(name: str, length: int):
    return lambda folder: os.truncate(folder / name, length)


def without(name: str):
    return lambda folder: (folder / name).unlink()


WRONG = [
    (not_finite, "model.safetensors holds NaN or infinity, in model.transformer.wte.weight"),
    (pickled, "model.safetensors is missing, and pytorch_model.bin is a pickle, which is not read"),
    (without(WEIGHTS), "own holds no weights: model.safetensors is missing"),
    (without(CONFIG), "own holds no model: config.json is missing"),
    (without("tokenizer.json"), "own holds no tokenizer that can be loaded: tokenizer.json is missing"),
    (cut(WEIGHTS, 100_000), "model.safetensors is damaged or cut off"),
    (cut(WEIGHTS, 0), "model.safetensors is damaged or cut off"),
    (cut(CONFIG, 300), "config.json is no JSON, it may be cut off: Expecting"),
    (cut("tokenizer.json", 3000), "own cannot be loaded: Expecting property name"),
    (incomplete, "1 of the weights that config.json asks for are missing, model.transformer.ff_out.weight first"),
    (lambda folder: configure(folder, d_model=128), "of the weights that config.json asks for are of another shape"),
    (lambda folder: configure(folder, model_type="no-such"), "own cannot be loaded: The checkpoint you are trying"),
    (lambda folder: (folder / CONFIG).write_text("[6]"), "config.json must hold an object, not a list"),
]


@pytest.mark.parametrize(("damage", "message"), WRONG)
def test_a_damaged_model_is_refused_before_anything_is_written(damage, message, folder, tmp_path, capsys) -> None:
    damage(folder)
    with pytest.raises(ValueError) as refused:
        load(str(folder))
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert message in refusal(capsys, "decode", "--model", str(folder), SIX)
    told = refusal(capsys, "demo", "--models", str(folder), "--output_dir", str(tmp_path / "page"))
    assert message in told or "holds no config.json" in told
    assert not (tmp_path / "page").exists()
    if "of the weights that config.json asks for" in message:  # an arm of a training sees that
        return
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--model", str(folder), "--output_dir", str(tmp_path / "run")])
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and (message in told or "holds no model, config.json is missing" in told)
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_of_another_model_is_refused(folder) -> None:
    configure(folder, vocab_size=20, embedding_size=20)
    store(folder, {name: w[:20].clone() if len(w) == 423 else w for name, w in load_file(folder / WEIGHTS).items()})
    refused("the tokenizer has 423 tokens and the model 20; they are no pair", lambda: load(str(folder)))


@pytest.mark.parametrize("model", ["/nowhere/x", "own", "a/b/c", "/dev/null"])
def test_what_is_neither_folder_nor_name_is_no_model(model, capsys) -> None:
    assert f"there is no model {model!r}: choose one of" in refusal(capsys, "decode", "--model", model, SIX)


def test_the_page_is_not_written_over_a_file(tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("kept")
    told = refusal(capsys, "demo", "--models", "llada-sudoku9x9", "--output_dir", str(tmp_path / "file"))
    assert f"--output_dir {tmp_path / 'file'} is a file; name a folder" in told
    assert (tmp_path / "file").read_text() == "kept"


def test_a_port_that_is_taken_is_named(tmp_path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"--port {port}: .* choose another one, or 0 for any that is free"):
            page_server(tmp_path, port)


def test_a_training_records_the_sizes_of_its_puzzles(folder, tmp_path) -> None:
    """Of a base that tells none."""
    configure(folder, board_sizes=None)
    sizes = {"max_puzzles": 4, "eval_puzzles": 2, "control_batch_size": 4, "save_strategy": "no"}
    trial, run = Labels(setting(tmp_path, model=str(folder), **sizes)), tmp_path / "run"
    trial.trained(Job("sft", 42), trial.start(42, run), run, Budget("steps", 1), lambda share: None, resume=False)
    assert json.loads((run / "model" / CONFIG).read_text(encoding="utf-8"))["board_sizes"] == [6]
