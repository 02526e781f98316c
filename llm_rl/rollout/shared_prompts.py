"""One forward pass over a prompt for all of its completions: its keys and values are computed once and then shared."""

import inspect
import logging
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicLayer

from llm_rl.training.modes import evaluation_mode

logger = logging.getLogger(__name__)
ASKS = (
    "a model whose cache holds plain keys and values of all tokens, without sliding window or recurrent state, and no "
    "gradient checkpointing"
)
"""What sharing prompts needs."""


@cache
def inputs_of(kind: Any) -> frozenset[str]:
    """The names of what the forward pass of a class of models takes; read once, as every pass asks."""
    return frozenset(inspect.signature(kind.forward).parameters)


def positions(mask: Tensor) -> Tensor:
    """Positions `(B, L)` that count from the first token of a row that is not padding."""
    return (mask.long().cumsum(1) - 1).clamp(min=0)


def group_by_prompt(prompt_ids: Tensor, prompt_mask: Tensor) -> tuple[Tensor, Tensor]:
    """The first row of each different prompt, `(Q,)`, and for each row the number of its prompt, `(B,)`; both int64.

    Prompts are `(B, P)`, of which the bool mask says what is not padding.
    """
    numbers: dict[tuple[int, ...], int] = {}
    firsts: list[int] = []
    owners: list[int] = []
    for row, ids in enumerate(prompt_ids.masked_fill(~prompt_mask, -1).tolist()):
        number = numbers.setdefault(tuple(ids), len(numbers))
        if number == len(firsts):
            firsts.append(row)
        owners.append(number)
    return torch.tensor(firsts, device=prompt_ids.device), torch.tensor(owners, device=prompt_ids.device)


def prompt_cache(
    causal: Any, prompt_ids: Tensor, prompt_mask: Tensor, groups: tuple[Tensor, Tensor] | None = None
) -> Any:
    """Keys and values of all but the last token of each prompt, a row for each row; different prompts are read once.

    None where there is nothing to share, as no prompt of two tokens or more is there twice. Gradients flow through it.
    Dropout, if the model has any, is drawn once for a prompt.

    Prompts are `(B, P)`, padded on the left, as the bool mask says, `groups` what `group_by_prompt` says of them (None
    asks it); the model is one that `supports_shared_prompts`.
    """
    if prompt_ids.shape[1] < 2:
        return None
    firsts, owners = group_by_prompt(prompt_ids, prompt_mask) if groups is None else groups
    if len(firsts) == len(prompt_ids):
        return None
    # All but the last token: that one each row reads itself, as from it comes the first token of its own.
    mask = prompt_mask[firsts, :-1]
    inputs = {"input_ids": prompt_ids[firsts, :-1], "attention_mask": mask.long(), "use_cache": True}
    if "position_ids" in inputs_of(causal.__class__):
        inputs["position_ids"] = positions(mask)
    cache = causal.base_model(**inputs).past_key_values
    cache.batch_select_indices(owners)
    return cache


@torch.no_grad()
def supports_shared_prompts(causal: Any) -> bool:
    """Whether reading a prompt and then what follows gives what both at once do; tried out, without PEFT's wrapper."""
    recomputes = any(getattr(module, "gradient_checkpointing", False) for module in causal.modules())
    if causal.base_model is causal or recomputes:
        return False
    ids = torch.arange(8, device=causal.device).unsqueeze(0) % causal.get_input_embeddings().weight.shape[0]
    with evaluation_mode(causal):
        whole = causal.base_model(input_ids=ids, use_cache=False).last_hidden_state
        cache = getattr(causal.base_model(input_ids=ids[:, :3], use_cache=True), "past_key_values", None)
        if not all(type(layer) is DynamicLayer for layer in getattr(cache, "layers", [None])):
            return False
        rest = causal.base_model(input_ids=ids[:, 3:], past_key_values=cache, use_cache=True).last_hidden_state
    return torch.allclose(whole[:, 3:].float(), rest.float(), rtol=0.05, atol=0.05 * float(whole.abs().max()))


def shares_prompts(causal: nn.Module, asked: bool | None) -> bool:
    """Whether prompts are shared: as asked for, or, without a word on it, where the model supports it.

    Where it does not, that is told once; where it was asked for, it is a `ValueError`.
    """
    if asked is False:
        return False
    supported = supports_shared_prompts(causal)
    if asked and not supported:
        raise ValueError(f"share_prompts=True needs {ASKS}; leave share_prompts out")
    if not supported and type(causal) not in _told:
        _told.add(type(causal))
        logger.warning("A prompt is read anew for each of its completions: to read it once takes %s", ASKS)
    return supported


_told: set[type] = set()
"""Classes of models of which it was told that prompts are not shared."""
