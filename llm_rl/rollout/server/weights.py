"""What a policy's weights are as files that a server reads: its LoRA adapters, or a model's folder.

PEFT's adapters lie in the layers of the causal language model, `name.lora_A.default.weight` beside
`name.base_layer.weight`.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from llm_rl.training.sharding import is_sharded

BASE_LAYER = ".base_layer."


def adapter_name(model: Any) -> str | None:
    """The name of a policy's LoRA adapters, or None where it has no adapters.

    Raises:
        ValueError: The weights are dealt out to processes, the adapters are none of LoRA or several, or other weights
            are trained beside them.
    """
    if is_sharded(model):
        raise ValueError(
            "ServerEngine is not supported with shard, whose weights are dealt out; leave shard out, or sample with "
            "the TransformersEngine"
        )
    configs = getattr(model, "peft_config", None)
    if not configs:
        return None
    kinds = {name: str(getattr(config.peft_type, "value", config.peft_type)) for name, config in configs.items()}
    if [*kinds.values()] != ["LORA"]:
        raise ValueError(f"ServerEngine takes one LoRA adapter, and the policy has {kinds}; leave the others out")
    (name,) = kinds
    trained = [key for key, parameter in model.named_parameters() if parameter.requires_grad]
    if beside := [key for key in trained if f".{name}." not in key]:
        raise ValueError(
            f"{len(beside)} weights are trained beside the LoRA adapters ({beside[0]}, …), which a server cannot be "
            "told; freeze them, or train all weights without adapters"
        )
    return name


def adapter_weights(model: Any, name: str) -> dict[str, Tensor]:
    """The weights of an adapter under the names of PEFT's files."""
    from peft import get_peft_model_state_dict

    found = get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False)
    return {f"base_model.model.{key}": value for key, value in found.items()}


def save_adapter(model: Any, name: str, folder: Path) -> None:
    """Write an adapter as PEFT does: `adapter_config.json` and `adapter_model.safetensors`."""
    weights = {key: value.detach().cpu().contiguous() for key, value in adapter_weights(model, name).items()}
    save_file(weights, folder / "adapter_model.safetensors")
    model.peft_config[name].save_pretrained(str(folder))


def save_base(model: Any, folder: Path) -> None:
    """Write a model without its LoRA adapters, under its own names, for `from_pretrained`."""
    weights = {
        key.replace(BASE_LAYER, "."): value
        for key, value in model.state_dict().items()
        if ".lora_" not in key or BASE_LAYER in key
    }
    model.save_pretrained(folder, state_dict=weights)


def digest(weights: Mapping[str, Tensor]) -> str:
    """A checksum that two sets of weights share only where all bits are the same (SHA-256)."""
    total = hashlib.sha256()
    for key in sorted(weights):
        total.update(key.encode())
        total.update(weights[key].detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()
