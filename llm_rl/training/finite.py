"""Numbers that are not finite, found before they are stepped on or saved."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from llm_rl.training.sharding import is_dealt, is_sharded, of_all, share, whole


def gradient_norm(gradients: Iterable[Tensor | None]) -> Tensor:
    """The 2-norm of all gradients together, fp32 `()`; None counts as 0. A collective call where they are dealt."""
    found = [gradient for gradient in gradients if gradient is not None]
    dealt = [gradient for gradient in found if is_dealt(gradient)]
    if not dealt:
        return nn.utils.get_total_norm(found)
    kept = [gradient for gradient in found if not is_dealt(gradient)]
    norms = [nn.utils.get_total_norm(some) for some in (dealt, kept) if some]
    return nn.utils.get_total_norm([whole(norm) for norm in norms])


def all_finite(weight: Tensor) -> bool:
    """Whether a tensor of any shape and type holds neither NaN nor infinity."""
    # A sum is not finite where one of its terms is not; where only the sum overflows the terms are looked at.
    return not weight.is_floating_point() or bool(torch.isfinite(weight.sum()) or torch.isfinite(weight).all())


@torch.no_grad()
def check_weights(model: nn.Module) -> None:
    """Raises `FloatingPointError` where a weight of a model holds NaN or infinity; the message names it."""
    wrong = [name for name, weight in model.named_parameters() if not all_finite(share(weight))]
    wrong = of_all(wrong) if is_sharded(model) else wrong
    if wrong:
        raise FloatingPointError(
            f"the model's weights are not finite, {wrong[0]} among them; go back to an earlier checkpoint and lower "
            "the learning rate"
        )
