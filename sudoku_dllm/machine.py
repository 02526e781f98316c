"""What a figure was measured on, and with which packages."""

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

import torch

PACKAGES = ("sudoku-dllm", "torch", "transformers", "numpy", "numba", "gymnasium")
"""Those whose versions a run tells."""


def machine() -> str:
    """Processor, cores, vector instructions that torch uses, a card, Python and date of this run, in one line.

    Where numba compiles for another processor than this one (`NUMBA_CPU_NAME`), that is named too.
    """
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    vectors = torch.backends.cpu.get_cpu_capability()
    if kernels := os.environ.get("NUMBA_CPU_NAME"):
        vectors += f", kernels for {kernels}"
    if torch.cuda.is_available():
        vectors += f", {torch.cuda.get_device_name()}"
    python = platform.python_version()
    return f"{model}, {os.cpu_count()} cores, {vectors}, Python {python}, {time.strftime('%Y-%m-%d')}"


def versions() -> str:
    """The versions of `PACKAGES`, in one line."""
    return ", ".join(f"{name} {version(name)}" for name in PACKAGES)
