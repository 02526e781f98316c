"""A masked-diffusion model of a few dozen parameters, and what it makes of masked copies.

    logits_i = scale · tanh(a_i + Σ_j 0.7^|i−j| e[x_j])

so that what one token is depends on all others and on where they stand. Parameters are sines of their number and no
random draws: they are the same on every machine.
"""

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from llm_rl.core import masked_log_softmax, selective_log_softmax
from scripts.referee.objectives.copies import Completions, Copies

SCALE = 2.0


class TinyModel(nn.Module):
    """Takes int64 `(B, L)` and returns an object with `logits`, float64 `(B, L, outcomes)`."""

    def __init__(self, length: int, vocabulary: int, outcomes: int, phase: float = 0.0) -> None:
        """Set all parameters.

        Args:
            length: L, prompt and completion.
            vocabulary: Tokens, the mask token being the last.
            outcomes: The first so many of them have a logit.
            phase: Of the sines; models of near phases are near.
        """
        super().__init__()
        self.positions = nn.Parameter(_sines(length, outcomes, phase))
        self.embeddings = nn.Parameter(_sines(vocabulary, outcomes, phase + 1.0))
        apart = (torch.arange(length).unsqueeze(1) - torch.arange(length)).abs()
        self.near = 0.7 ** apart.double()  # (L, L)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> SimpleNamespace:
        """The logits; `attention_mask` bool `(B, L)` is False at tokens that are not read."""
        embedded = self.embeddings[input_ids]  # (B, L, outcomes)
        if attention_mask is not None:
            embedded = embedded * attention_mask.unsqueeze(-1)
        return SimpleNamespace(logits=SCALE * torch.tanh(self.positions + self.near @ embedded))


def _sines(rows: int, columns: int, phase: float) -> Tensor:
    number = torch.arange(rows * columns, dtype=torch.float64)
    return torch.sin(1.7 * number**1.5 + phase).reshape(rows, columns)


def logprobs_of(model: TinyModel, completions: Completions, copies: Copies, mask_id: int) -> Tensor:
    """log p of the completions' tokens in each copy, float64 `(B, M, L)`."""
    inputs = copies.inputs(completions, mask_id)
    logits = model(inputs.flatten(0, 1)).logits.unflatten(0, inputs.shape[:2])
    return selective_log_softmax(logits, completions.tokens.unsqueeze(1).expand(inputs.shape))


def position_logprobs_of(model: TinyModel, completions: Completions, copies: Copies, mask_id: int) -> Tensor:
    """log π(ℓ) at the masked positions of each copy, float64 `(B, M, L)`, by the model's first logit; −∞ elsewhere."""
    inputs = copies.inputs(completions, mask_id)
    scores = model(inputs.flatten(0, 1)).logits[..., 0].unflatten(0, inputs.shape[:2])
    return masked_log_softmax(scores, copies.masked)
