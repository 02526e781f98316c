"""Several processes: their number, what the first one says, and the mean of their gradients."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

Value = TypeVar("Value")


def check_processes(seen: int, expected: int | None = None) -> None:
    """Raises `RuntimeError` unless training sees as many processes as the launcher says, and as were asked for.

    A launcher may start fewer than it was told without leaving a trace in the environment, as
    `accelerate launch --cpu --num_processes 2` does; only `expected`, the number asked for, finds this out.
    """
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if launched != seen:
        raise RuntimeError(
            f"the launcher's WORLD_SIZE is {launched} but training sees {seen} processes, so every one would train "
            "alone; start with torchrun, and unset WORLD_SIZE where there is no launcher"
        )
    if expected is not None and expected != seen:
        raise RuntimeError(
            f"training sees {seen} processes, not the expected {expected}; start with torchrun --nproc_per_node "
            f"{expected} (accelerate launch --cpu starts one process, whatever --num_processes says)"
        )


def is_first() -> bool:
    """Whether this is the first process, or the only one."""
    return not dist.is_initialized() or dist.get_rank() == 0


def first_says(action: Callable[[], Value], error: type[Exception] | tuple[()] = ()) -> Value:
    """The value of an action of the first process, or its error of a kind, in all of them; a collective call."""
    found: list[Any] = [None, None]
    if is_first():
        try:
            found[0] = action()
        except error as raised:
            found[1] = raised
    if dist.is_initialized():
        dist.broadcast_object_list(found)
    if found[1] is not None:
        raise found[1]
    return found[0]


@torch.no_grad()
def mean_over_processes(gradients: Sequence[Tensor | None], parameters: Sequence[nn.Parameter]) -> list[Tensor | None]:
    """The mean of each gradient over all processes, None where no process has one; a collective call.

    This process's gradients, of which None counts as 0, are overwritten. Parameters have the same order in every
    process.
    """
    present = torch.tensor([gradient is not None for gradient in gradients], device=parameters[0].device).int()
    dist.all_reduce(present, op=dist.ReduceOp.MAX)
    means: list[Tensor | None] = []
    for gradient, parameter, somewhere in zip(gradients, parameters, present.tolist(), strict=True):
        if somewhere:
            gradient = torch.zeros_like(parameter) if gradient is None else gradient.contiguous()
            dist.all_reduce(gradient)
            gradient /= dist.get_world_size()
        means.append(gradient)
    return means
