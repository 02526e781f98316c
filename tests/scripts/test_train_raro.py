"""RARO from its recipe and a file of questions, on a tiny model, as a user runs it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.helpers.warm_process import ROOT, run_script
from tests.llm_rl.helpers.tiny_raro import rows
from tests.llm_rl.helpers.tiny_vapor import tag_model, tag_tokenizer

SMALL = [
    "--prompt_format", "text", "--per_device_train_batch_size", "4", "--num_generations", "2", "--critic_pairs", "2",
    "--critic_generations", "2", "--max_completion_length", "8", "--max_critic_completion_length", "8",
    "--max_steps", "2", "--save_steps", "1", "--bf16", "false", "--use_cpu", "true", "--report_to", "none",
    "--learning_rate", "0.01", "--warmup_steps", "0", "--weight_decay", "0.1",
]  # fmt: skip


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    for one in (tag_tokenizer(), tag_model(max_position_embeddings=1024)):
        one.save_pretrained(tmp_path / "start")
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    places = ["--model", "start", "--data", "questions.jsonl", "--output_dir", "run"]
    return [str(ROOT / "configs" / "raro.yaml"), *places, *SMALL]


def said(folder: Path, words: list[str], status: int) -> str:
    done = run_script(ROOT / "scripts" / "train_raro.py", words, cwd=folder)
    assert done.returncode == status, done.stderr[-3000:]
    return done.stderr


@pytest.mark.slow
def test_a_run_of_the_recipe_ends_with_a_model_and_resumes_to_the_same(tmp_path, words) -> None:
    said(tmp_path, words, 0)
    weights = tmp_path / "run" / "model" / "model.safetensors"
    ended = weights.read_bytes()
    assert ended != (tmp_path / "start" / "model.safetensors").read_bytes()
    assert (weights.parent / "tokenizer.json").is_file()
    assert "resume_from_checkpoint" in said(tmp_path, words, 2)
    for path in (weights.parent, tmp_path / "run" / "checkpoint-2"):
        shutil.rmtree(path)
    said(tmp_path, [*words, "--resume_from_checkpoint", "last"], 0)
    assert weights.read_bytes() == ended


def test_what_cannot_be_trained_on_is_named(tmp_path, words) -> None:
    assert "--data: there is no file none.jsonl" in said(tmp_path, [*words, "--data", "none.jsonl"], 2)
    assert "--model: there is no folder none" in said(tmp_path, [*words, "--model", "none"], 2)
    assert "choose 'text', or set one" in said(tmp_path, [*words, "--prompt_format", "chat"], 2)
    for line, told in (('{"question": "a"}', "line 2: a row of the data set holds ['question']"), ("[", "line 2: ")):
        (tmp_path / "bad.jsonl").write_text(f"{json.dumps(rows()[0])}\n{line}\n")
        assert f"bad.jsonl, {told}" in said(tmp_path, [*words, "--data", "bad.jsonl"], 2)
    (tmp_path / "bad.jsonl").write_text("\n")
    assert "bad.jsonl has no row" in said(tmp_path, [*words, "--data", "bad.jsonl"], 2)
