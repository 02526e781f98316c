"""Files and templates from elsewhere run no code; see SECURITY.md."""

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from jinja2.exceptions import SecurityError
from torch import nn
from transformers import Trainer, TrainingArguments

from llm_rl.rollout.data import encode_prompt
from llm_rl.training.checkpoint import ExactTrainer
from llm_rl.training.storage import load_record, save_record
from sudoku_dllm.kill_test.comparison import NEVER_COMPARED
from sudoku_env.prompts.alignment import encode_prompts
from tests.dllm_rl.helpers import tiny_text
from tests.helpers.refusals import refused

ROOT = Path(__file__).parents[1]
PACKAGES = ("sudoku_env", "dllm_rl", "llm_rl", "sudoku_dllm", "scripts", "examples")


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """The name of a source file and a node of its syntax, of all packages."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                yield path.name, node


class Bomb:
    """Unpickling it makes a folder."""

    def __init__(self, crater: Path) -> None:
        self.crater = crater

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.crater),)


def test_the_bomb_goes_off_where_pickle_is_read_as_it_is(tmp_path):
    torch.save(Bomb(tmp_path / "crater"), tmp_path / "bomb")
    torch.load(tmp_path / "bomb", weights_only=False)
    assert (tmp_path / "crater").exists()


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "pytorch_model.bin"])
def test_a_malicious_file_of_a_checkpoint_is_refused_without_being_run(tmp_path, name):
    """By what reads it in transformers, whatever this package has checked before."""
    args = TrainingArguments(output_dir=str(tmp_path), max_steps=1, report_to="none", use_cpu=True)
    run = ExactTrainer(nn.Linear(2, 2), args)
    run.create_optimizer_and_scheduler(1)
    checkpoint = tmp_path / "checkpoint-1"
    checkpoint.mkdir()
    torch.save(run.optimizer.state_dict(), checkpoint / "optimizer.pt")
    torch.save(run.lr_scheduler.state_dict(), checkpoint / "scheduler.pt")
    torch.save(run.model.state_dict(), checkpoint / "pytorch_model.bin")
    torch.save({}, checkpoint / "rng_state.pth")
    crater = tmp_path / "crater"
    torch.save({"state": Bomb(crater), "param_groups": []}, checkpoint / name)
    read = {"rng_state.pth": Trainer._load_rng_state, "pytorch_model.bin": Trainer._load_from_checkpoint}
    load = read.get(name, Trainer._load_optimizer_and_scheduler)
    refused(r"(?i)weights.only", lambda: load(run, str(checkpoint)), Exception)
    assert not crater.exists()


def test_the_arguments_that_a_checkpoint_holds_are_never_read():
    """The kill test names the file among those that it does not compare, and opens none of them."""
    named = {name for name, node in nodes() if isinstance(node, ast.Constant) and node.value == "training_args.bin"}
    assert named == {"comparison.py"}
    assert "training_args.bin" in NEVER_COMPARED


def test_a_record_names_no_file_and_no_class_but_the_expected_ones(tmp_path):
    save_record({"kept": torch.zeros(2)}, tmp_path / "record")
    written = tmp_path / "record.json"
    (tmp_path / "other.safetensors").write_bytes((tmp_path / "record.safetensors").read_bytes())
    written.write_text(json.dumps({"kind": "tensor", "name": "../other.safetensors"}))
    with pytest.raises(KeyError):
        load_record(tmp_path / "record")
    opening = {"kind": "dataclass", "class": "Popen", "items": {"args": {"kind": "dict", "items": {}}}}
    written.write_text(json.dumps(opening))
    refused("Popen", lambda: load_record(tmp_path / "record"), TypeError)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.mkdir('crater') }}",
        "{{ messages.append(1) }}",
    ],
)
def test_a_chat_template_stays_in_its_sandbox(tmp_path, monkeypatch, template):
    monkeypatch.chdir(tmp_path)
    tokenizer = tiny_text.tokenizer(chat_template=template)
    with pytest.raises(SecurityError):
        encode_prompt([{"role": "user", "content": "1"}], tokenizer, {})
    with pytest.raises(SecurityError):
        encode_prompts(tokenizer, ["1"], "")
    assert not list(tmp_path.iterdir())


def test_no_remote_code_is_trusted_and_no_weights_are_unpickled_by_default():
    passed = {
        (name, node.arg)
        for name, node in nodes()
        if isinstance(node, ast.keyword)
        and node.arg in ("trust_remote_code", "weights_only", "allow_pickle")
        and not (isinstance(node.value, ast.Constant) and node.value.value is (node.arg == "weights_only"))
    }
    assert len({name for name, _ in nodes()}) > 100 and passed == set()
