"""A head that says which masked position to fill next, on a frozen model: what UPO trains.

It adds to the scores of the position policy, log π(ℓ|s) by the margins, and is 0 at first, so that training begins with
the sampler of the other objectives. (UPO begins with a head that was fitted to a rule of its kind.)
"""

from typing import Any

import torch
from torch import Tensor, nn

from dllm_rl.decoding import Strategy
from dllm_rl.policy import StateScores, logits_at, scores_of
from scripts.referee.training import TEMPERATURES, Asked

HEAD = "order_head"


def add_order_head(model: Any, seed: int) -> None:
    """Freeze a `LladaForMaskedLM` and give it a head of two layers, drawn from a seed, the last one 0."""
    width = model.config.d_model
    model.requires_grad_(False)
    torch.manual_seed(seed)
    model.order_head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
    nn.init.zeros_(model.order_head[-1].weight)
    nn.init.zeros_(model.order_head[-1].bias)

    def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        model.latest = inputs[0]  # what the output head was given, (M, d)

    model.get_output_embeddings().register_forward_pre_hook(keep)


def has_order_head(model: nn.Module) -> bool:
    """Whether a model was given one."""
    return hasattr(model, HEAD)


def head_scores(model: Any, scores: StateScores) -> Tensor:
    """Scores `(N, R)` of the masked positions of the states that the model was asked about last, -inf elsewhere."""
    masked = scores.row_of >= 0
    added = model.order_head(model.latest).squeeze(-1)  # (M,)
    return scores.position_logprobs + torch.zeros_like(scores.margins).masked_scatter(masked, added)


def head_strategy(model: nn.Module, *, draws: bool) -> Strategy:
    """Positions by the head's scores, drawn with tokens, or the best ones with the most probable tokens."""
    return Strategy(HEAD, lambda scores, definite: head_scores(model, scores), draws, draws)


def position_logprobs(model: nn.Module, asked: Asked) -> Tensor:
    """log π(ℓ) of the positions that are scored, among all that are masked in their copy, row by row."""
    logits = logits_at(model, asked.inputs[:, :0], None, asked.inputs, asked.masked, asked.mask_id)
    return head_scores(model, scores_of(logits, asked.masked, TEMPERATURES)).log_softmax(-1)[asked.scored]
