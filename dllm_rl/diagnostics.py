"""Whether a term's gradient is signal or noise: the cosine between its gradients on two halves of a roll-out."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from dllm_rl.objective import ObjectiveConfig
from dllm_rl.rollout import Rollout
from dllm_rl.update import objective_pass
from dllm_rl.values import Values

TERMS = ("rl", "sft")


def term_gradients(
    model: nn.Module,
    record: Rollout,
    *,
    config: ObjectiveConfig,
    max_tokens: int = 65536,
    max_masked: int | None = None,
    values: Values | None = None,
) -> dict[str, Tensor]:
    """Gradients of the two terms of J apart, at weight 1, one vector `(P,)` each over all trained parameters.

    In closed form and in logarithms both are one term, that of `config`, given as the second; the first is 0. Gradients
    kept in the parameters are left alone. The arguments are those of `dllm_rl.update.objective_pass`.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    totals = {name: [torch.zeros_like(parameter) for parameter in parameters] for name in TERMS}

    def backward(rl: Tensor, sft: Tensor) -> None:
        for name, term, keep in zip(TERMS, (rl, sft), (True, False), strict=True):
            if not term.requires_grad:
                continue
            found = torch.autograd.grad(term, parameters, retain_graph=keep, allow_unused=True)
            for total, gradient in zip(totals[name], found, strict=True):
                if gradient is not None:
                    total += gradient

    plain = replace(config, kl_weight=0.0, entropy_weight=0.0, ce_weight=0.0, state_fraction=1.0)
    if config.objective == "sampled":
        plain = replace(plain, rl_weight=1.0, sft_weight=1.0)
    elif config.f_form == "linear":
        plain = replace(plain, rl_weight=0.0 if values is None else 1.0, sft_weight=1.0)
    objective_pass(model, record, backward, config=plain, max_tokens=max_tokens, max_masked=max_masked, values=values)
    return {name: torch.cat([part.flatten() for part in parts]) for name, parts in totals.items()}


def half_batch_cosines(
    model: nn.Module,
    record: Rollout,
    *,
    config: ObjectiveConfig,
    max_tokens: int = 65536,
    max_masked: int | None = None,
    values: Values | None = None,
) -> dict[str, float]:
    """Cosine between each term's gradients on the even and on the odd problems of a roll-out, by name.

    Near 0 the gradient of half the batch is noise. A cosine c means that the signal's share of a half-batch gradient's
    squared length is about c, and 2c / (1 + c) that of the whole batch. A term whose gradient is 0 on a half has 0.

    Raises:
        ValueError: The roll-out has fewer than two problems, or its advantages need the baseline "ema".
    """
    count = len(record.problems)
    if count < 2:
        raise ValueError(f"a roll-out of {count} problem cannot be halved; take two problems or more")
    if config.advantage_baseline == "ema":
        raise ValueError(
            "half-batch cosines need advantages within groups; use advantage_baseline 'mean' or 'leave_one_out'"
        )
    numbers = torch.arange(count, device=record.decisions.device)
    even, odd = (
        term_gradients(
            model, record.select(half), config=config, max_tokens=max_tokens, max_masked=max_masked, values=values
        )
        for half in (numbers[::2], numbers[1::2])
    )
    return {name: float(nn.functional.cosine_similarity(even[name], odd[name], dim=0)) for name in TERMS}
