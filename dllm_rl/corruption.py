"""States with the model's own mistakes in them, from which it learns to tell wrong tokens and what belongs there.

Masked-diffusion SFT (`dllm_rl.sft`) shows a model masks and right tokens only, so it never learns to doubt a token that
it sees. Here some of the tokens that are not masked are replaced by wrong ones which the model itself would have
written there, and the loss counts the filled positions too.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dllm_rl.noise import inverse_cdf
from dllm_rl.policy import NEG_INF
from llm_rl.core.logprobs import promote


@dataclass(frozen=True)
class Corruption:
    """How filled positions are corrupted, and what the loss makes of them.

    Attributes:
        rate: c; in each sequence a filled position is replaced with a probability that is uniform in [0, c].
        temperature: Temperature at which the wrong tokens are drawn.
        weight: Factor of the cross-entropy at filled positions, beside 1/t at masked ones.

    Raises:
        ValueError: A number is out of range.
    """

    rate: float
    temperature: float = 1.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"corruption={self.rate} must be a probability above 0, or 0 for no corrupted states")
        if not self.temperature > 0:
            raise ValueError(f"corruption_temperature={self.temperature} must be above 0")
        if not self.weight > 0:
            raise ValueError(f"corruption_weight={self.weight} must be above 0; use corruption=0 for no such loss")


@torch.no_grad()
def with_own_mistakes(
    model: nn.Module,
    corrupted: Tensor,
    filled: Tensor,
    mask_id: int,
    how: Corruption,
    *,
    attention_mask: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Replace some filled positions of masked sequences by wrong tokens that the model draws there.

    Which positions is chosen first; then these are masked too, and one forward pass gives the distributions that wrong
    tokens are drawn from, all of a sequence independently, the right token and the mask left out.

    Args:
        model: Takes `(input_ids, attention_mask, logits_mask)`, as `LladaForMaskedLM` does.
        corrupted: int64 `(B, L)`, sequences with masks.
        filled: bool `(B, L)`, the positions that hold the right token and may be replaced.
        mask_id: The mask token.
        how: Rate and temperature.
        attention_mask: `(B, L)`, or None without padding.
        generator: Source of randomness on the tensors' device; None is the global one.

    Returns:
        The sequences `(B, L)`, and which positions are wrong, bool `(B, L)`.
    """
    shape, device = corrupted.shape, corrupted.device
    level = how.rate * torch.rand(shape[0], 1, generator=generator, device=device)
    chosen = filled & (torch.rand(shape, generator=generator, device=device) < level)
    hidden = corrupted.masked_fill(chosen, mask_id)
    logits = promote(model(input_ids=hidden, attention_mask=attention_mask, logits_mask=chosen).logits)  # (M, V)
    logits[:, mask_id] = NEG_INF
    logits = logits.scatter(1, corrupted[chosen][:, None], NEG_INF)
    uniforms = torch.rand(len(logits), dtype=torch.float64, generator=generator, device=device)
    return corrupted.masked_scatter(chosen, inverse_cdf(logits / how.temperature, uniforms)), chosen
