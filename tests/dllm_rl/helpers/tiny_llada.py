"""A LLaDA of a few thousand parameters."""

from typing import Any

import torch

from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.models.llada_config import LladaConfig


def make_model(*, seed: int = 0, **changes: Any) -> LladaForMaskedLM:
    """A tiny LLaDA with grouped-query attention; `changes` go to the configuration."""
    sizes: dict[str, Any] = {
        "d_model": 32, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "mlp_hidden_size": 48, "vocab_size": 105,
        "max_sequence_length": 128, "mask_token_id": 2,
    }  # fmt: skip
    torch.manual_seed(seed)
    return LladaForMaskedLM(LladaConfig(**{**sizes, **changes})).eval()
