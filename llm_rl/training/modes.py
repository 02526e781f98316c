"""Evaluation mode for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from torch import nn

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Run a block without dropout; every module of the model gets its own mode back, come what may."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def in_evaluation_mode(function: Callable[Concatenate[nn.Module, P], R]) -> Callable[Concatenate[nn.Module, P], R]:
    """Put the model, the first argument, in evaluation mode for a call; every module gets its mode back, come what may.

    The function then runs without dropout, and a model that is being trained goes on in training mode after an error.
    """

    @wraps(function)
    def wrapped(model: nn.Module, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with evaluation_mode(model):
            return function(model, *args, **kwargs)

    return wrapped
