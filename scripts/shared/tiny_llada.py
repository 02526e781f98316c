"""A random LLaDA, made in no time."""

from typing import Any

import torch

from dllm_rl import LladaConfig, LladaForMaskedLM


def tiny_llada(vocab_size: int, mask_id: int, seed: int, **sizes: Any) -> LladaForMaskedLM:
    """A random LLaDA, by default of two layers and 32 wide, whose tasks say what ends a sequence.

    Args:
        vocab_size: Number of tokens.
        mask_id: The mask token.
        seed: Random seed of the weights; torch's global generator is set to it.
        **sizes: Passed on to `LladaConfig`, in place of the sizes here; the MLP is twice as wide as the model.
    """
    chosen: dict[str, Any] = {
        "d_model": 32,
        "n_layers": 2,
        "n_heads": 2,
        "mlp_hidden_size": 2 * sizes.get("d_model", 32),
        "max_sequence_length": 64,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    torch.manual_seed(seed)
    return LladaForMaskedLM(LladaConfig(vocab_size=vocab_size, mask_token_id=mask_id, **{**chosen, **sizes}))
