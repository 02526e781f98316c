"""A tiny random LLaDA written as the checkpoints are published, and the same weights as transformers' Llama."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from scripts.shared.small_tokenizer import build_small_tokenizer

# The keys of the published LLaDA-8B folder, with small sizes.
PUBLISHED: dict[str, Any] = {
    "activation_type": "silu", "alibi": False, "alibi_bias_max": 8.0, "architectures": ["LLaDAModelLM"],
    "attention_dropout": 0.0, "attention_layer_norm": False, "attention_layer_norm_with_affine": True,
    "auto_map": {
        "AutoConfig": "configuration_llada.LLaDAConfig",
        "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM",
        "AutoModel": "modeling_llada.LLaDAModelLM",
    },
    "bias_for_layer_norm": False, "block_group_size": 1, "block_type": "llama", "d_model": 32, "embedding_dropout": 0.0,
    "embedding_size": 40, "eos_token_id": 38, "flash_attention": False, "include_bias": False,
    "include_qkv_bias": False, "init_cutoff_factor": None, "init_device": "meta", "init_fn": "mitchell",
    "init_std": 0.02, "input_emb_norm": False, "layer_norm_type": "rms", "layer_norm_with_affine": True,
    "mask_token_id": 39, "max_sequence_length": 64, "mlp_hidden_size": 48, "mlp_ratio": 4, "model_type": "llada",
    "multi_query_attention": None, "n_heads": 4, "n_kv_heads": 4, "n_layers": 2, "pad_token_id": 38,
    "precision": "amp_bf16", "residual_dropout": 0.0, "rms_norm_eps": 1e-5, "rope": True, "rope_full_precision": True,
    "rope_theta": 500000.0, "scale_logits": False, "transformers_version": "4.46.3", "use_cache": False,
    "vocab_size": 40, "weight_tying": False,
}  # fmt: skip
REMOTE_CODE = "raise AssertionError('remote code was run')\n"


def published_weights(config: dict[str, Any]) -> dict[str, Tensor]:
    """Random bfloat16 weights under the published names."""
    width, rows, mlp = config["d_model"], config["embedding_size"], config["mlp_hidden_size"]
    kv_width = width // config["n_heads"] * config["n_kv_heads"]
    shapes: dict[str, tuple[int, ...]] = {"wte": (rows, width)}
    for block in range(config["n_layers"]):
        shapes |= {
            f"blocks.{block}.{name}": shape
            for name, shape in {
                "attn_norm": (width,), "ff_norm": (width,), "q_proj": (width, width), "k_proj": (kv_width, width),
                "v_proj": (kv_width, width), "attn_out": (width, width), "ff_proj": (mlp, width),
                "up_proj": (mlp, width), "ff_out": (width, mlp),
            }.items()
        }  # fmt: skip
    shapes |= {"ln_f": (width,), "ff_out": (rows, width)}
    generator = torch.Generator().manual_seed(0)
    drawn = {name: 0.2 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {f"model.transformer.{name}.weight": weight.bfloat16() for name, weight in drawn.items()}


def write_published(folder: Path, **changes: Any) -> dict[str, Tensor]:
    """Write configuration, two shards with their index, and remote code that must not be run; the weights."""
    config = {**PUBLISHED, **changes}
    weights = published_weights(config)
    names, half = list(weights), len(weights) // 2
    files = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    shards = dict(zip(files, (names[:half], names[half:]), strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    for file, part in shards.items():
        save_file({name: weights[name] for name in part}, str(folder / file), metadata={"format": "pt"})
    index = {
        "metadata": {"total_size": sum(2 * weight.numel() for weight in weights.values())},
        "weight_map": {name: file for file, part in shards.items() for name in part},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("configuration_llada", "modeling_llada"):
        (folder / f"{name}.py").write_text(REMOTE_CODE)
    return weights


def write_tokenizer(folder: Path, size: int) -> PreTrainedTokenizerFast:
    """Write a tokenizer as published: the mask is among the added tokens, but the tokenizer has no `mask_token`."""
    small = build_small_tokenizer(size, chunk=1)
    text = json.dumps(json.loads(small.backend_tokenizer.to_str())).replace("<|mask|>", "<|mdm_mask|>")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(text)
    options = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": small.bos_token, "eos_token": small.eos_token,
        "pad_token": small.eos_token, "chat_template": small.chat_template, "clean_up_tokenization_spaces": False,
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    return small


def write_sudoku_checkpoint(folder: Path, size: int = 6) -> None:
    """A published folder with a tokenizer that knows Sudoku."""
    small = write_tokenizer(folder, size)
    write_published(
        folder, vocab_size=len(small), embedding_size=len(small) + 3, mask_token_id=small.mask_token_id,
        eos_token_id=small.eos_token_id, pad_token_id=small.pad_token_id, max_sequence_length=256,
    )  # fmt: skip


def llama_of(config: dict[str, Any], weights: dict[str, Tensor]) -> LlamaForCausalLM:
    """Llama of transformers in fp32 with weights of the published names, renamed; its causal mask is the caller's."""
    theirs = {
        "hidden_size": "d_model", "intermediate_size": "mlp_hidden_size", "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads", "num_key_value_heads": "n_kv_heads", "rms_norm_eps": "rms_norm_eps",
        "vocab_size": "embedding_size",
    }  # fmt: skip
    sizes = {name: config[ours] for name, ours in theirs.items()}
    rope = {"rope_type": "default", "rope_theta": config["rope_theta"]}
    further = {"attn_implementation": "eager", "tie_word_embeddings": False}
    llama = LlamaForCausalLM(LlamaConfig(rope_parameters=rope, **sizes, **further))
    in_block = {
        "attn_norm": "input_layernorm", "ff_norm": "post_attention_layernorm", "q_proj": "self_attn.q_proj",
        "k_proj": "self_attn.k_proj", "v_proj": "self_attn.v_proj", "attn_out": "self_attn.o_proj",
        "ff_proj": "mlp.gate_proj", "up_proj": "mlp.up_proj", "ff_out": "mlp.down_proj",
    }  # fmt: skip
    outside = {"wte": "model.embed_tokens", "ln_f": "model.norm", "ff_out": "lm_head"}
    renamed = {}
    for name, weight in weights.items():
        parts = name.removeprefix("model.transformer.").removesuffix(".weight").split(".")
        new = f"model.layers.{parts[1]}.{in_block[parts[2]]}" if parts[0] == "blocks" else outside[parts[0]]
        renamed[f"{new}.weight"] = weight.float()
    llama.load_state_dict(renamed, strict=True)
    return llama.eval()
