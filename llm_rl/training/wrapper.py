"""Models inside a module that calls them in another way."""

from typing import Any

from torch import nn


def unwrapped(model: Any) -> Any:
    """What a `ModelWrapper` wraps, or the model itself."""
    return model.model if isinstance(model, ModelWrapper) else model


class ModelWrapper(nn.Module):
    """A module around a model, such as one that gives the model another call; subclasses say which by `forward`.

    Whatever the wrapper itself does not have is the model's: its configuration, its embeddings, its adapters. Trainers
    save and load the model alone, under its own names, so that what they write is read without the wrapper.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "model":  # a wrapper that is just being copied has none yet
                raise
            return getattr(self.model, name)
