"""A CUDA device that is not there, for tests: what a program on one card would do, computed on the processor.

`backend.cpp` takes the free CUDA dispatch key of a torch built without CUDA, and `pretended_card` says to Python that a
card is there, whose name and memory are made up. Not pretended: streams and events, kernels that a card has or lacks,
precision of its own, pinned memory (which is the processor's), several cards.
"""

import fcntl
import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import accelerate.utils.imports
import torch
import transformers.utils.import_utils
from accelerate.state import AcceleratorState
from torch.utils.cpp_extension import include_paths

SOURCE = Path(__file__).with_name("backend.cpp")
BUILT = Path(__file__).resolve().parents[2] / "build"
NAME = "A card that is not there"
CANNOT = (
    "needs Linux and a torch built without CUDA, whose place it takes"
    if sys.platform != "linux" or torch.version.cuda or torch.version.hip
    else ""
)
"""Why no card can be pretended here; empty where one can."""


@cache
def load() -> None:
    """Build the backend where that has not been done for this torch, some 20 seconds, and take it in.

    Raises:
        RuntimeError: It does not compile, or there is no compiler.
    """
    version = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    library, root = BUILT / f"card-{version}.so", Path(torch.__file__).parent
    BUILT.mkdir(exist_ok=True)
    with open(BUILT / "card.lock", "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not library.exists():
            command = ["c++", "-std=c++20", "-O0", "-w", "-shared", "-fPIC", str(SOURCE), "-o", f"{library}.new"]
            headers = [part for path in include_paths() for part in ("-isystem", path)]
            command += [*headers, f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10"]
            try:
                subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True)
            except FileNotFoundError:
                raise RuntimeError("the card that tests pretend needs a C++ compiler: apt-get install g++") from None
            except subprocess.CalledProcessError as error:
                raise RuntimeError(f"{SOURCE.name} does not compile:\n{error.stderr[-4000:]}") from None
            Path(f"{library}.new").rename(library)
    torch.ops.load_library(library)
    # Autograd's engine looks for cards once, at a process's first backward pass: it has to find this one.
    torch.ops.card.pretend(True)
    torch.ones(1, requires_grad=True).backward()
    torch.ops.card.pretend(False)


@contextmanager
def waits() -> Iterator[Counter[str]]:
    """Counts, by name, how often the host waits for the pretended card inside the block.

    The counter is filled when the block ends; `total()` is the sum. Names are operations ("aten::_local_scalar_dense"
    is `.item()` and `bool()`, "aten::nonzero" also a mask used as an index) and "to_cpu" and "to_card", copies that do
    not say `non_blocking`.
    """
    counts = Counter[str]()
    torch.ops.card.take_counts()
    try:
        yield counts
    finally:
        counts.update(torch.ops.card.take_counts())


@contextmanager
def pretended_card() -> Iterator[None]:
    """Inside the block one CUDA device is there; a trainer made there lies on it."""
    load()
    properties = SimpleNamespace(name=NAME, total_memory=1 << 34, major=9, minor=0, multi_processor_count=1)
    said: dict[str, object] = {
        "_lazy_init": lambda: None,
        "_initialized": True,
        "default_generators": (torch.ops.card.default_generator(),),
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "_exchange_device": lambda index: 0,
        "_maybe_exchange_device": lambda index: 0,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "is_bf16_supported": lambda including_emulation=True: True,
        "get_device_name": lambda device=None: NAME,
        "get_device_capability": lambda device=None: (9, 0),
        "get_device_properties": lambda device=None: properties,
        "memory_allocated": lambda device=None: torch.ops.card.allocated(),
        "max_memory_allocated": lambda device=None: 0,
        "reset_peak_memory_stats": lambda device=None: None,
        "mem_get_info": lambda device=None: (1 << 34, 1 << 34),
    }
    asked_by_random = {name: said[name] for name in ("current_device", "device_count", "_lazy_init")}
    with (
        mock.patch.multiple(torch.cuda, **said),
        mock.patch.multiple(torch.cuda.random, **asked_by_random),
        mock.patch("torch.storage._to", _storage_to),
        mock.patch.object(torch.UntypedStorage, "clone", lambda storage: _storage_to(storage, storage.device)),
    ):
        forget_what_is_there()
        torch.ops.card.pretend(True)
        try:
            yield
        finally:
            torch.ops.card.pretend(False)
            forget_what_is_there()


def _storage_to(storage: torch.UntypedStorage, device: Any, non_blocking: bool = False) -> torch.UntypedStorage:
    there = torch.empty(storage.nbytes(), dtype=torch.uint8, device=device).untyped_storage()
    return there.copy_(storage, non_blocking)


def forget_what_is_there() -> None:
    """Libraries ask anew for a card."""
    AcceleratorState._reset_state(reset_partial_state=True)
    for module in (transformers.utils.import_utils, accelerate.utils.imports):
        for asked in vars(module).values():
            if hasattr(asked, "cache_clear"):
                asked.cache_clear()
