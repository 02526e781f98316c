import json
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.policy import PolicyConfig
from dllm_rl.sudoku import SudokuTask
from llm_rl.training.storage import load_record, save_record, whole_folder, write_text_whole
from tests.dllm_rl.helpers.tiny_training import tokenizer
from tests.helpers.refusals import refused


@dataclass
class Pair:
    left: Any
    right: Any


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, Tensor):
        assert one.dtype == other.dtype and torch.equal(one, other)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    elif hasattr(one, "__dataclass_fields__"):
        for item in fields(one):
            assert_same(getattr(one, item.name), getattr(other, item.name))
    else:
        assert one == other


def test_records_come_back_with_their_types(tmp_path) -> None:
    base = torch.arange(6.0)
    plain = {"a": [1, 2.5, "x", None, True], "b": (float("inf"), 0.1 + 0.2)}
    record = Pair(plain, Pair(base[::2], np.arange(4, dtype=np.uint8)))
    save_record([record, base], tmp_path / "r")
    (back, whole) = load_record(tmp_path / "r", [Pair])
    assert type(back.left["b"]) is tuple
    assert_same(back, record)
    assert_same(whole, base)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "r.safetensors"]
    json.loads((tmp_path / "r.json").read_text())


def test_a_rollout_comes_back(tmp_path, model, batch) -> None:
    record = rollout(model, batch, num_generations=3)
    save_record(record, tmp_path / "rollout")
    back = load_record(tmp_path / "rollout", (Rollout, PolicyConfig, *SudokuTask.record_classes))
    assert_same(back, record)
    assert back.problems.layout.mask_id == tokenizer().mask_token_id
    with pytest.raises(ValueError, match="read-only"):
        back.problems.layout.puzzle[0] = 1


def test_what_a_record_cannot_hold(tmp_path) -> None:
    refused(r"record\.0 is a set", lambda: save_record([{1}], tmp_path / "r"), TypeError)
    save_record(Pair(1, 2), tmp_path / "r")
    refused("holds a Pair; add it to classes", lambda: load_record(tmp_path / "r"), TypeError)


def test_a_folder_takes_its_name_when_it_is_complete(tmp_path) -> None:
    target = tmp_path / "run" / "data"
    with whole_folder(target) as partial:
        (partial / "one").write_text("1")
        assert not target.exists()
    with pytest.raises(RuntimeError), whole_folder(target) as partial:
        (partial / "two").write_text("2")
        raise RuntimeError
    assert [path.name for path in target.iterdir()] == ["one"]
    with whole_folder(target) as partial:
        (partial / "three").write_text("3")
    assert [path.name for path in target.iterdir()] == ["three"]
    assert [path.name for path in target.parent.iterdir()] == ["data"]


def test_text_is_replaced_whole(tmp_path) -> None:
    for text in ("old", "new"):
        write_text_whole(tmp_path / "file", text)
    assert (tmp_path / "file").read_text() == "new" and len(list(tmp_path.iterdir())) == 1
