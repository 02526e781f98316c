"""Where the squared length of a puzzle's gradient comes from: its roll-out, the puzzle, or what all have in common."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dllm_rl import ObjectiveConfig, Rollout, objective_pass


def objective_gradient(model: nn.Module, record: Rollout, *, config: ObjectiveConfig, **options: Any) -> Tensor:
    """The gradient of J as `config` weighs its terms, one vector `(P,)` over all trained parameters.

    Gradients kept in the parameters are left alone. The options are those of `dllm_rl.training.update.objective_pass`.
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
