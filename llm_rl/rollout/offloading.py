"""What a card holds for training lies in host memory while an engine samples, and comes back bit for bit.

Only the data go: parameters stay the objects that they are, and what shares memory (tied weights, views) shares it on
the host too.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim import Optimizer

from llm_rl.rollout.arguments import RolloutArguments
from llm_rl.rollout.generation import GenerationEngine, TransformersEngine
from llm_rl.training.arguments import refuse_idle


def refuse_idle_offloading(args: RolloutArguments, engine: GenerationEngine | None) -> None:
    """Raises `ValueError` where nothing could leave the device, or the engine needs what would leave."""
    own = engine is None or isinstance(engine, TransformersEngine)
    needed = "while the policy itself samples; pass an engine with weights of its own, such as ServerEngine"
    host = "on a processor, whose memory is the host's; train on a card"
    both = "offload_optimizer offload_model"
    refuse_idle(args, [(both, args.device.type != "cpu", host), ("offload_model", not own, needed)])


def moments_and_gradients(optimizer: Optimizer | None, gradients: Iterable[Tensor | None]) -> list[Tensor]:
    """What an optimizer keeps of each parameter, and the gradients that there are."""
    kept = [value for state in (optimizer.state.values() if optimizer else ()) for value in state.values()]
    return [value for value in (*kept, *gradients) if isinstance(value, Tensor)]


@contextmanager
def on_host(tensors: Iterable[Tensor], device: torch.device) -> Iterator[None]:
    """A section in which those of some tensors that lie on a device are on the host, and its memory free for others."""
    gone = [*{id(tensor): tensor for tensor in tensors if tensor.device.type == device.type}.values()]
    homes = [tensor.device for tensor in gone]
    _lay(gone, [torch.device("cpu")] * len(gone), pinned=device.type == "cuda")
    try:
        if gone:
            torch.get_device_module(device).empty_cache()
        yield
    finally:
        _lay(gone, homes)


def _lay(tensors: list[Tensor], places: list[torch.device], *, pinned: bool = False) -> None:
    """Lays each tensor on its device: all of them, or where there is no room none."""
    copies: dict[int, torch.UntypedStorage] = {}
    for tensor, place in zip(tensors, places, strict=True):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in copies:
            there = torch.empty(storage.nbytes(), dtype=torch.uint8, device=place, pin_memory=pinned)
            copies[storage.data_ptr()] = there.untyped_storage().copy_(storage)
    for tensor, place in zip(tensors, places, strict=True):
        copied = copies[tensor.untyped_storage().data_ptr()]
        there = torch.empty(0, dtype=tensor.dtype, device=place)
        tensor.data = there.set_(copied, tensor.storage_offset(), tensor.size(), tensor.stride())
