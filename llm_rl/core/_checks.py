"""Argument checks and the precision rule of the core."""

import math
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor


def promote(values: Tensor) -> Tensor:
    """`values` in float32, or in float64 where they already are: the precision of all arithmetic in the core."""
    return values if values.dtype == torch.float64 else values.float()


def check_same_shape(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    """Raises `ValueError` unless both tensors have one shape."""
    if tensor.shape != other.shape:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)} but {other_name} has {tuple(other.shape)}; they must be equal"
        )


def check_mask(mask: Tensor, name: str, values: Tensor) -> None:
    """Raises `ValueError` unless `mask` is bool and has the shape of `values`, which is called `name`."""
    if mask.dtype != torch.bool:
        raise ValueError(f"mask has dtype {mask.dtype}; it must be torch.bool, True for what counts (use mask.bool())")
    check_same_shape("mask", mask, name, values)


def check_all(right: Tensor, message: str, values: Tensor | None = None) -> None:
    """Raises `ValueError`, with the first wrong one of `values`, unless all of a bool tensor is True.

    An accelerator stops with a `RuntimeError` of its own when it gets there, so that the host does not wait.
    """
    if right.device.type != "cpu":
        torch._assert_async(right.all(), message)
    elif not right.all():
        raise ValueError(message if values is None else f"{message}; it holds {values[~right][0]}")


def check_rank(name: str, tensor: Tensor, rank: int, shape: str) -> None:
    """Raises `ValueError` where `tensor` has fewer than `rank` dimensions; `shape` says what they are."""
    if tensor.ndim < rank:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {shape}")


def check_positive(name: str, value: float) -> None:
    """Raises `ValueError` unless `value` is above 0 (NaN is not)."""
    if not value > 0:
        raise ValueError(f"{name} is {value!r}; it must be greater than 0")


def check_rate(name: str, value: float | None) -> None:
    """Raises `ValueError` unless `value` is a finite number, 0 or larger, or None."""
    if value is not None and not 0 <= value < math.inf:
        raise ValueError(f"{name}={value} must be a finite number, 0 or larger")


def check_count(name: str, value: int, remedy: str = "", *, least: int = 1) -> None:
    """Raises `ValueError` unless `value` is a whole number, `least` or larger."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r} must be at least {least} and a whole number{remedy}")


def check_choice(name: str, value: str, choices: object) -> None:
    """Raises `ValueError` unless `value` is one of the strings of the `Literal` type `choices`."""
    if value not in get_args(choices):
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(map(repr, get_args(choices)))}")


def check_choices(options: Any) -> None:
    """`check_choice` of each field of a dataclass whose type is a `Literal`."""
    # Not by the types of the fields: HfArgumentParser takes None out of them.
    for name, kind in get_type_hints(type(options)).items():
        if get_origin(kind) is Literal:
            check_choice(name, getattr(options, name), kind)


def check_index(index: Tensor, rows: Tensor, name: str) -> None:
    """Raises `ValueError` unless `index` is int64 and gives one outcome for each row of `rows`, called `name`."""
    if index.dtype != torch.int64:
        raise ValueError(f"index has dtype {index.dtype}; it must be torch.int64")
    if index.shape != rows.shape[:-1]:
        raise ValueError(
            f"index has shape {tuple(index.shape)}; {name} of {tuple(rows.shape)} ask for {tuple(rows.shape[:-1])}"
        )
