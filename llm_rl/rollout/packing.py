"""Rows of different length as one sequence without padding: positions start anew, attention stays within a row.

transformers builds the block mask from positions that start anew (`masking_utils`), and FlashAttention its bounds.
"""

from typing import Any

import torch
from torch import Tensor

from llm_rl.rollout.shared_prompts import inputs_of, positions
from llm_rl.training.modes import evaluation_mode


def packed_outputs(forward: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """What a model says of padded rows, `(B, L, D)`, computed on their tokens alone, side by side in one sequence.

    `forward` maps `input_ids` and `position_ids`, int64 `(1, M)`, to outputs `(1, M, D)`; M tokens of `ids`, int64
    `(B, L)`, are no padding, as `mask`, bool `(B, L)`, says. The result is 0 at padding. Gradients pass through.
    """
    outputs = forward(input_ids=ids[mask].unsqueeze(0), position_ids=positions(mask)[mask].unsqueeze(0))[0]  # (M, D)
    padded = outputs.new_zeros(*mask.shape, outputs.shape[-1])
    return padded.index_put(mask.nonzero(as_tuple=True), outputs)


@torch.no_grad()
def supports_packing(causal: Any) -> bool:
    """Whether two rows in one sequence give what they give one by one; tried out, on a model without PEFT's wrapper."""
    if causal.base_model is causal or "position_ids" not in inputs_of(causal.__class__):
        return False
    ids = torch.arange(8, device=causal.device).unsqueeze(0) % causal.get_input_embeddings().weight.shape[0]
    rows = torch.cat([ids, ids.flip(1)])  # (2, 8)
    mask = torch.ones_like(rows, dtype=torch.bool)
    mask[0, :3] = False
    with evaluation_mode(causal):
        packed = packed_outputs(lambda **inputs: causal.base_model(**inputs, use_cache=False)[0], rows, mask)
        alone = [
            causal.base_model(input_ids=row[kept][None], use_cache=False)[0]
            for row, kept in zip(rows, mask, strict=True)
        ]
    expected = torch.cat([outputs[0] for outputs in alone]).float()
    return torch.allclose(packed[mask].float(), expected, rtol=0.05, atol=0.05 * float(expected.abs().max()))
