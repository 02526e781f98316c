"""Weights: copies of them, which of them moved, and models that are moved."""

import copy

import torch
from torch import Tensor, nn


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Copies of all parameters by their names."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def moved_from(before: dict[str, Tensor], model: nn.Module) -> set[str]:
    """The names of the parameters that are others than before."""
    return {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}


def moved(model: nn.Module, size: float) -> None:
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(size * torch.randn_like(parameter))


def beside(model: nn.Module, seed: int) -> nn.Module:
    """A model near another, drawn from a seed."""
    other, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
    return other
