"""Which cells of a puzzle are masked in training, and what each weighs.

The recipe masks cells at random, as LLaDA's algorithm 2 does. Who decodes by margin never sees such states: what is
left open then are the cells that are hardest to tell. These can be masked instead.
"""

from collections.abc import Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dllm_rl.sft import MIN_MASK_RATIO

MaskKind = Literal["random", "ordered"]
"""Any share of the blanks, as LLaDA has it; or half of them or more, the last that the model would fill."""


def top_ratios(rows: int, device: torch.device | str = "cpu") -> Tensor:
    """The share t of the blanks that is masked in each puzzle of a batch, `(rows, 1)` in [1/2, 1), spread evenly."""
    drawn = (torch.rand(1, 1, device=device) + torch.arange(rows, device=device)[:, None] / rows) % 1
    return MIN_MASK_RATIO + (1 - MIN_MASK_RATIO) * (1 + drawn) / 2


@torch.no_grad()
def left_open(model: nn.Module, inputs: Tensor, maskable: Tensor, open_: Tensor, mask_id: int) -> Tensor:
    """The cells that are left when the surest ones are filled, bool `(B, L)`.

    Args:
        model: The model.
        inputs: int64 `(B, L)`, the answers.
        maskable: bool `(B, L)`.
        open_: int64 `(B,)`, how many are left.
        mask_id: The mask token.
    """
    logits = model(input_ids=inputs.masked_fill(maskable, mask_id), logits_mask=maskable).logits
    best = logits.log_softmax(-1).topk(2).values
    margins = torch.full(inputs.shape, torch.inf, device=inputs.device)
    gumbel = -torch.rand(len(best), device=inputs.device).log().neg().log()
    margins[maskable] = best[:, 0] - best[:, 1] + gumbel
    rank = margins.argsort(1).argsort(1)
    return (rank < open_[:, None]) & maskable


def ordered_loss(model: nn.Module, batch: Mapping[str, Any], mask_id: int) -> Tensor:
    """The mean cross-entropy of the cells of a batch of puzzles that the model would leave open.

    Args:
        model: The model.
        batch: `input_ids` and `maskable`, as `dllm_rl.sft.collate` makes them; nothing is padded.
        mask_id: The mask token.
    """
    inputs, maskable = batch["input_ids"].long(), batch["maskable"]
    drawn = torch.rand(inputs.shape, device=inputs.device)
    open_ = (drawn < top_ratios(len(inputs), inputs.device)) & maskable
    masked = left_open(model, inputs, maskable, open_.sum(1), mask_id)
    logits = model(input_ids=inputs.masked_fill(masked, mask_id), logits_mask=masked).logits
    return F.cross_entropy(logits, inputs[masked])
