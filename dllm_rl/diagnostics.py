"""Whether a term's gradient is signal or noise: cosines between halves of a roll-out, and shares of its length."""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dllm_rl.objective import ObjectiveConfig
from dllm_rl.rollouts import Rollout
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


def objective_gradient(model: nn.Module, record: Rollout, *, config: ObjectiveConfig, **options: Any) -> Tensor:
    """The gradient of J as `config` weighs its terms, one vector `(P,)` over all trained parameters.

    Gradients kept in the parameters are left alone. The options are those of `dllm_rl.update.objective_pass`.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    total = [torch.zeros_like(parameter) for parameter in parameters]

    def backward(rl: Tensor, sft: Tensor) -> None:
        for sum_, gradient in zip(total, torch.autograd.grad(rl + sft, parameters, allow_unused=True), strict=True):
            if gradient is not None:
                sum_ += gradient

    objective_pass(model, record, backward, config=config, **options)
    return torch.cat([part.flatten() for part in total])


class GradientShares(NamedTuple):
    """Shares of a puzzle's expected squared gradient, which add up to 1; an estimate may lie outside [0, 1].

    Attributes:
        monte_carlo: Of the noise of its roll-out: the variance over roll-outs of one puzzle.
        between: Of what puzzles want beyond what they have in common: the variance over puzzles of their expectations.
        common: Of what all puzzles have in common: the squared length of the expectation over puzzles.
        errors: Standard errors of the three, by a jackknife over puzzles.
    """

    monte_carlo: float
    between: float
    common: float
    errors: tuple[float, float, float]


def gradient_shares(first: Tensor, second: Tensor) -> GradientShares:
    """Where the squared length of a puzzle's gradient comes from, from two independent roll-outs of each of N puzzles.

    With a_p, b_p the gradients and m_p their mean, Monte Carlo is the mean of |a_p − b_p|² / 2 and common that of
    m_p·m_q over all pairs of different puzzles, both unbiased; each is divided by the mean of (|a_p|² + |b_p|²) / 2.

    Args:
        first: `(N, P)`, the gradient of each puzzle on one roll-out.
        second: `(N, P)`, that on another.

    Raises:
        ValueError: There are fewer than three puzzles, or all gradients are 0.
    """
    count = len(first)
    if count < 3:
        raise ValueError(f"the shares of {count} puzzles have no jackknife errors; take three puzzles or more")
    total = (first.double().square().sum(1) + second.double().square().sum(1)) / 2  # (N,)
    noise = (first - second).double().square().sum(1) / 2  # (N,)
    middle = (first + second).double() / 2
    products = middle @ middle.T
    products.fill_diagonal_(0.0)
    if not bool(total.sum() > 0):
        raise ValueError("all gradients are 0, so there is nothing to share")

    def shares(left_out: int | None = None) -> Tensor:
        kept = torch.ones_like(total)
        if left_out is not None:
            kept[left_out] = 0.0
        number = kept.sum()
        length = (kept * total).sum() / number
        monte_carlo = (kept * noise).sum() / number / length
        common = (kept @ products @ kept) / (number * (number - 1)) / length
        return torch.stack([monte_carlo, 1 - monte_carlo - common, common])

    without = torch.stack([shares(puzzle) for puzzle in range(count)])
    errors = ((count - 1) * without.var(0, correction=0)).sqrt()
    monte_carlo, between, common = shares().tolist()
    return GradientShares(monte_carlo, between, common, tuple(errors.tolist()))


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
        ValueError: The roll-out has fewer than two problems.
    """
    count = len(record.problems)
    if count < 2:
        raise ValueError(f"a roll-out of {count} problem cannot be halved; take two problems or more")
    numbers = torch.arange(count, device=record.decisions.device)
    even, odd = (
        term_gradients(
            model, record.select(half), config=config, max_tokens=max_tokens, max_masked=max_masked, values=values
        )
        for half in (numbers[::2], numbers[1::2])
    )
    return {name: float(nn.functional.cosine_similarity(even[name], odd[name], dim=0)) for name in TERMS}
