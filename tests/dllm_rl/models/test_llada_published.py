"""LLaDA's published folders: configuration, sharded weights and tokenizer, without remote code."""

import json

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoTokenizer

from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.models.llada_config import LladaConfig
from sudoku_env.generator import generate
from sudoku_env.prompts.text import build_prompt
from sudoku_env.prompts.tokens import pre_fill
from tests.dllm_rl.helpers.published_llada import PUBLISHED, llama_of, write_published, write_sudoku_checkpoint
from tests.helpers.refusals import refused


def ids(batch: int, length: int) -> Tensor:
    return torch.randint(0, 40, (batch, length), generator=torch.Generator().manual_seed(1))


def test_a_published_folder_loads_without_remote_code(tmp_path) -> None:
    weights = write_published(tmp_path)
    for loader in (AutoModelForMaskedLM, LladaForMaskedLM):
        model, report = loader.from_pretrained(tmp_path, output_loading_info=True)
        assert type(model) is LladaForMaskedLM
        assert not any(report.get(kind) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        state = model.state_dict()
        assert state.keys() == weights.keys()
        assert all(torch.equal(state[name], weight) for name, weight in weights.items())  # bfloat16, as stored
    files = {f"model-0000{number}-of-00002.safetensors" for number in (1, 2)}
    assert {path.name for path in tmp_path.glob("*.safetensors")} == files
    assert model.config.mask_token_id == 39 and model.config.rope_theta == 500000.0
    assert type(AutoModel.from_pretrained(tmp_path)).__name__ == "LladaModel"
    assert type(AutoConfig.from_pretrained(tmp_path)) is LladaConfig


def test_a_shard_that_is_missing_is_an_error(tmp_path) -> None:
    write_published(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    refused("model-00002-of-00002", lambda: AutoModelForMaskedLM.from_pretrained(tmp_path), OSError)


@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
@pytest.mark.parametrize("rope_theta", [500000.0, 100.0])
def test_a_published_folder_equals_llama_without_its_causal_mask(tmp_path, n_kv_heads, rope_theta) -> None:
    changes = {"n_kv_heads": n_kv_heads, "rope_theta": rope_theta}
    llama = llama_of({**PUBLISHED, **changes}, write_published(tmp_path, **changes))
    model, tokens = AutoModelForMaskedLM.from_pretrained(tmp_path, dtype=torch.float32).eval(), ids(2, 9)
    with torch.no_grad():
        expected = llama(tokens, torch.zeros(2, 1, 9, 9), use_cache=False, output_hidden_states=True)
        causal = llama(tokens, use_cache=False).logits
        logits, hidden = model(tokens).logits, model.model(tokens).last_hidden_state
    torch.testing.assert_close(hidden, expected.hidden_states[-1], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logits, expected.logits, atol=1e-4, rtol=1e-4)
    assert float((logits - causal).abs().max()) > 0.1


def test_saving_writes_a_folder_that_needs_no_remote_code(tmp_path) -> None:
    write_published(tmp_path / "published", n_kv_heads=2)
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "published")
    model.save_pretrained(tmp_path / "saved", max_shard_size="10KB")
    assert len(list((tmp_path / "saved").glob("*.safetensors"))) > 1
    saved = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert "auto_map" not in saved
    changed = {"auto_map", "architectures", "transformers_version", "use_cache"}  # the last is generation's
    kept = {key: value for key, value in {**PUBLISHED, "n_kv_heads": 2}.items() if key not in changed}
    assert {key: saved.get(key) for key in kept} == kept
    again = AutoModelForMaskedLM.from_pretrained(tmp_path / "saved")
    assert torch.equal(again(ids(1, 6)).logits, model(ids(1, 6)).logits)


NOT_IMPLEMENTED = {
    "block_type": "sequential", "activation_type": "swiglu", "layer_norm_type": "default", "rope": False,
    "rope_full_precision": False, "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    "rope_parameters": {"rope_type": "yarn", "factor": 2.0}, "alibi": True, "include_bias": True,
    "include_qkv_bias": True, "attention_layer_norm": True, "input_emb_norm": True, "scale_logits": True,
    "weight_tying": True, "multi_query_attention": True, "attention_dropout": 0.1, "embedding_dropout": 0.1,
    "residual_dropout": 0.1, "bias_for_layer_norm": True, "layer_norm_with_affine": False, "block_group_size": 4,
    "init_fn": "full_megatron", "n_heads": 5, "n_kv_heads": 3, "d_model": 36,
}  # fmt: skip


@pytest.mark.parametrize(("key", "value"), NOT_IMPLEMENTED.items())
def test_architectures_that_are_not_implemented_are_refused(tmp_path, key, value) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**PUBLISHED, key: value}))
    refused(f"{key}=", lambda: AutoConfig.from_pretrained(tmp_path))


def test_the_published_tokenizer_gives_llada_s_mask_token(tmp_path) -> None:
    write_sudoku_checkpoint(tmp_path, size=4)
    tokenizer, config = AutoTokenizer.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)
    assert tokenizer.mask_token is None
    assert tokenizer.convert_tokens_to_ids("<|mdm_mask|>") == config.mask_token_id
    puzzle = pre_fill(build_prompt(generate(1, size=4, seed=1).boards[0], "compact"), tokenizer, 20)
    assert puzzle.layout.mask_id == config.mask_token_id
    assert puzzle.token_ids.count(config.mask_token_id) == 20 - len(puzzle.filled_indices)
