"""Weights dealt out to processes by FSDP2 (`torch.distributed.fsdp.fully_shard`): units, shares, whole tensors, files.

How processes then take passes is told in `llm_rl.training.passes`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

SHARDS = "shards"
"""The folder of a checkpoint with the processes' parts of weights and optimizer."""


def units(model: nn.Module, *, head_apart: bool) -> list[nn.Module]:
    """The modules whose weights are gathered together: layers, and the embedding and the head where they are apart.

    What is in none of them is gathered with the whole model, and stays gathered from its forward pass to its backward
    pass: a head that is tied to the embedding, and both then. `head_apart`: whether the head is only read in its own
    forward pass. `ValueError` where no module says what its layers are.
    """
    named = (getattr(module, "_no_split_modules", None) or () for module in model.modules())
    names = {name for some in named for name in some}
    layers = [module for module in model.modules() if type(module).__name__ in names]
    if not layers:
        raise ValueError(
            f"{type(model).__name__} names no layers to shard by; give its class _no_split_modules, the names of its "
            "layers' classes, as models of transformers have it, or leave out shard"
        )
    embedding, head = (getattr(model, f"get_{which}_embeddings", lambda: None)() for which in ("input", "output"))
    if embedding is None or (head is not None and head.weight is embedding.weight):
        return layers
    return [*layers, embedding, *([head] if head_apart and head is not None else [])]


def shard(model: nn.Module, *, head_apart: bool) -> None:
    """Deal the weights of a model out to all processes, in `units` and the rest; those of the first process count.

    The model, which lies where it is trained, is changed in place: its parameters become `DTensor`s. Gradients are
    averaged over processes in fp32 or finer. Errors as in `units` and `check_sharded`.
    """
    parts = units(model, head_apart=head_apart)
    tensors = [*model.parameters(), *model.buffers()]
    for tensor in tensors:
        dist.broadcast(tensor.data, 0)
    mesh = init_device_mesh(tensors[0].device.type, (dist.get_world_size(),))
    narrow = any(tensor.dtype.itemsize < 4 for tensor in tensors if tensor.is_floating_point())
    policy = MixedPrecisionPolicy(reduce_dtype=torch.float32 if narrow else None, cast_forward_inputs=False)
    for part in (*parts, model):
        fully_shard(part, mesh=mesh, mp_policy=policy)
    check_sharded(model)


def check_sharded(model: nn.Module) -> None:
    """Raises `RuntimeError` where a parameter is whole, or dealt out to another number of processes than there are."""
    for name, parameter in model.named_parameters():
        shares = parameter.device_mesh.size() if isinstance(parameter, DTensor) else 1
        if shares != dist.get_world_size():
            raise RuntimeError(
                f"{name} is dealt out to {shares} processes, not to all {dist.get_world_size()}: sharding did not "
                "happen; leave out shard, or what puts new parameters into the model"
            )


def is_dealt(tensor: Tensor) -> bool:
    """Whether a tensor is dealt out to processes."""
    return isinstance(tensor, DTensor)


def is_sharded(model: nn.Module) -> bool:
    """Whether a model's weights are dealt out."""
    return any(is_dealt(parameter) for parameter in model.parameters())


def whole(tensor: Tensor) -> Tensor:
    """A tensor in full, where it is dealt out; then a collective call."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def share_of(tensor: Tensor, parameter: Tensor) -> Tensor:
    """This process's share of a tensor that is dealt out as a parameter is; a collective call."""
    assert isinstance(parameter, DTensor)
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements).to_local()


def share(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor: all of it, where it is not dealt out."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def of_all(names: list[str]) -> list[str]:
    """The names that any process has, in the order of processes; a collective call."""
    said: list[list[str]] = [[]] * dist.get_world_size()
    dist.all_gather_object(said, names)
    return [name for some in said for name in some]


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights by name in full on the CPU of the first process, for adapters theirs alone; a collective call."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=_adapted(model))
    return get_model_state_dict(model, options=options)  # type: ignore[return-value]


def save_shards(folder: Path, model: nn.Module, optimizer: Optimizer) -> None:
    """Write each process's share of the weights and of the optimizer's state; a collective call.

    Of a model with adapters theirs alone are written. `OSError` where a process could not write its share.
    """
    options = StateDictOptions(ignore_frozen_params=_adapted(model))
    state = {
        "model": get_model_state_dict(model, options=options),
        "optimizer": get_optimizer_state_dict(model, optimizer, options=options),
    }
    with _named_failures():
        dcp.save(state, checkpoint_id=folder)


def load_weights(folder: Path, model: nn.Module) -> None:
    """Read the weights that `save_shards` wrote, in any number of processes; a collective call."""
    options = StateDictOptions(ignore_frozen_params=_adapted(model), strict=not _adapted(model))
    state = {"model": get_model_state_dict(model, options=options)}
    with _named_failures():
        dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(model, state["model"], options=options)


def load_optimizer(folder: Path, model: nn.Module, optimizer: Optimizer) -> None:
    """Read the optimizer's state that `save_shards` wrote, in any number of processes; a collective call."""
    options = StateDictOptions(ignore_frozen_params=_adapted(model))
    state = {"optimizer": get_optimizer_state_dict(model, optimizer, options=options)}
    with _named_failures():
        dcp.load(state, checkpoint_id=folder)
    set_optimizer_state_dict(model, optimizer, state["optimizer"], options=options)


@contextmanager
def _named_failures() -> Iterator[None]:
    """What torch raises past `except Exception`, as an error of files that names the processes."""
    try:
        yield
    except CheckpointException as error:
        raise OSError("; ".join(f"process {rank}: {each[0]}" for rank, each in error.failures.items())) from error


def _adapted(model: nn.Module) -> bool:
    return hasattr(model, "get_base_model")
