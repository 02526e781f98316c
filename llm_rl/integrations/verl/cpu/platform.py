"""The processor as a platform of verl, found by it where no accelerator is.

verl asks for the platform as its modules are imported, so this one must be there before: start verl, and all of Ray's
workers, with `VERL_USE_EXTERNAL_MODULES=llm_rl.integrations.verl.cpu.platform`.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

NOTHING = "llm_rl_no_devices"


class HostMemory(ModuleType):
    """What verl asks of `torch.cuda`: `torch.cpu`, and the process's memory in the place of the device's."""

    def __init__(self) -> None:
        super().__init__("llm_rl_cpu", "torch.cpu with the functions on memory and generators that verl asks for.")
        self.memory_allocated = self.memory_reserved = resident_bytes
        self.max_memory_allocated = self.max_memory_reserved = peak_bytes
        self.mem_get_info = free_and_total_bytes
        self.get_rng_state, self.set_rng_state = torch.get_rng_state, torch.set_rng_state

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def get_device_name(self) -> str:
        """A name of which verl knows no peak speed: it logs an `mfu` of 0."""
        return "processor"

    def empty_cache(self) -> None:
        """Nothing is cached."""

    def ipc_collect(self) -> None:
        """Nothing is shared."""


def resident_bytes() -> int:
    """The memory that this process holds, in bytes."""
    return psutil.Process().memory_info().rss


def free_and_total_bytes() -> tuple[int, int]:
    """The machine's memory, in bytes."""
    memory = psutil.virtual_memory()
    return memory.available, memory.total


def peak_bytes() -> int:
    """The most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@PlatformRegistry.register(platform="cpu")
class CPUPlatform(PlatformBase):
    """Tensors stay in host memory, processes talk by gloo, and a "GPU" is a place that Ray was told of (`num_gpus`).

    verl counts free places as Ray's resource "GPU" alone (`ResourcePoolManager._check_resource_available`), so a run
    on a processor starts Ray with as many as it has training processes.
    """

    _module = HostMemory()

    @property
    def device_name(self) -> str:
        """The type of `torch.device`."""
        return "cpu"

    @property
    def vendor_name(self) -> str:
        """No vendor has an engine of its own."""
        return "cpu"

    @property
    def device_module(self) -> ModuleType:
        """What stands for `torch.cuda`."""
        return self._module

    def is_available(self) -> bool:
        """Always."""
        return True

    def current_device(self) -> Any:
        """The device itself: `tensor.to(0)`, as verl would say with a number, means an accelerator."""
        return torch.device("cpu")

    def device_count(self) -> int:
        """One for each process."""
        return 1

    def set_device(self, device_index: int) -> None:
        """There is nothing to choose."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Nothing runs behind."""

    def manual_seed(self, seed: int) -> None:
        """Seed torch's generator."""
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings: str) -> None:
        """Settings are those of an accelerator's memory."""

    def empty_cache(self) -> None:
        """Nothing is cached."""

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        """A processor has none."""
        return None, None

    def communication_backend_name(self) -> str:
        """Collectives on tensors in host memory."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """A variable that nothing reads."""
        return NOTHING.upper()

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """No profiler marks ranges."""
        yield

    def profiler_start(self) -> None:
        """There is no device to profile."""

    def profiler_stop(self) -> None:
        """There is no device to profile."""

    def ray_resource_name(self) -> str:
        """What Ray calls a training process's place."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """Ray may set what it likes."""
        return []

    def is_ipc_supported(self) -> bool:
        """Processes share no memory of a device."""
        return False

    def cudart(self) -> None:
        """There is no CUDA runtime."""
