"""A policy and rows in the forms that users have them in: a model's name, a data frame, a file of lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

from llm_rl.rollout.data import named_place
from llm_rl.rollout.pictures import reads_pictures

Row = TypeVar("Row")


def load_policy(model: nn.Module | str, processing_class: Any) -> tuple[nn.Module, Any]:
    """A model as it is, or loaded in float32 by its folder or name on the hub, and its tokenizer.

    `processing_class` is the tokenizer, or the processor of a model that sees pictures; None takes the tokenizer of the
    folder or name. `ValueError` where there is neither, `OSError` where there is no such model.
    """
    if isinstance(model, str):
        tokenizer = AutoTokenizer.from_pretrained(model) if processing_class is None else processing_class
        kind = AutoModelForImageTextToText if reads_pictures(tokenizer) else AutoModelForCausalLM
        return kind.from_pretrained(model, dtype=torch.float32), tokenizer
    if processing_class is None:
        raise ValueError("processing_class is None; pass the tokenizer, or the model as a folder or name that has one")
    return model, processing_class


def as_rows(data: Any) -> Any:
    """A `pandas.DataFrame` as a list of its rows, anything else as it is."""
    return data.to_dict("records") if hasattr(data, "iloc") and hasattr(data, "to_dict") else data


def read_lines(path: str | Path, row_of: Callable[[str], Row], form: str) -> list[Row]:
    """The rows of a text file in UTF-8, one a line; empty lines are passed over.

    A `ValueError` of `row_of`, which makes a row of a line, gets the file and the line in front, and a file without
    rows is told to be written as `form` says. `OSError` where it cannot be read.
    """
    rows = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n"), start=1):
        if line.strip():
            with named_place(f"{path}, line {number}"):
                rows.append(row_of(line))
    if not rows:
        raise ValueError(f"{path} has no row; write {form}")
    return rows
