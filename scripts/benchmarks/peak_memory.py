"""Peak of live tensor memory, exactly: the same figure on every machine, whatever else it does."""

import gc
from collections.abc import Callable

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


def peak_tensor_bytes(work: Callable[[], object]) -> int:
    """Largest number of bytes in CPU tensors that a call holds at once, beyond those that were there before it.

    Every block that torch's CPU allocator hands out and takes back is counted at its full size, temporaries inside
    operators included. Blocks from before the call count 0 even once they are freed.

    Raises:
        RuntimeError: The call allocated nothing, so there is nothing to measure (is its work on another device?).
    """
    gc.collect()  # what earlier work left in cycles would otherwise be freed now or then
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    if not events:
        raise RuntimeError("the call allocated no CPU tensor; run it on the CPU")
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def peak_of_update(model: nn.Module, update: Callable[[], object]) -> int:
    """Peak of an update beyond weights, gradients and record: activations, temporaries and bookkeeping.

    Args:
        model: The model that is updated.
        update: Adds the gradient to the model's parameters; called twice, as the first call may create them.
    """
    update()
    for parameter in model.parameters():
        if parameter.grad is None and parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    return peak_tensor_bytes(update)
