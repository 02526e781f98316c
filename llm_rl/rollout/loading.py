"""A policy and rows in the forms that users have them in: a model's name, a data frame."""

from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer


def load_policy(model: nn.Module | str, processing_class: Any) -> tuple[nn.Module, Any]:
    """A model as it is, or loaded in float32 by its folder or name on the hub, and its tokenizer.

    Args:
        model: The model or where it is.
        processing_class: The tokenizer. None: that of the folder or name.

    Raises:
        ValueError: There is neither a tokenizer nor a folder or name to load it from.
        OSError: There is no such model.
    """
    if isinstance(model, str):
        tokenizer = AutoTokenizer.from_pretrained(model) if processing_class is None else processing_class
        return AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), tokenizer
    if processing_class is None:
        raise ValueError("processing_class is None; pass the tokenizer, or the model as a folder or name that has one")
    return model, processing_class


def as_rows(data: Any) -> Any:
    """A `pandas.DataFrame` as a list of its rows, anything else as it is."""
    return data.to_dict("records") if hasattr(data, "iloc") and hasattr(data, "to_dict") else data
