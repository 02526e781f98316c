"""What a figure was measured on, and with which packages; the command `check` says it."""

import argparse
import json
import os
import platform
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("sudoku-dllm", "torch", "transformers", "numpy", "numba", "gymnasium")
"""Those whose versions a run tells."""


def machine() -> str:
    """Processor, cores, vector instructions that torch uses, a card, Python and date of this run, in one line.

    Where numba compiles for another processor than this one (`NUMBA_CPU_NAME`), that is named too.
    """
    import torch  # here: the command's help needs none

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


def environment() -> dict[str, str]:
    """What a report of a run begins with: machine, system, card and packages."""
    import torch

    card = "none"
    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(0)
        card = f"{found.name}, {found.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda or torch.version.hip}"
    return {"machine": machine(), "system": platform.platform(), "card": card, "packages": versions()}


def as_text(lines: Mapping[str, object]) -> str:
    """A line an entry."""
    return "\n".join(f"{name + ':':<10} {value}" for name, value in lines.items())


def add_check(parser: argparse.ArgumentParser) -> None:
    """Options of `check`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def check(args: argparse.Namespace) -> int:
    """Print the environment."""
    found = environment()
    print(json.dumps(found, indent=2) if args.json else as_text(found))
    return 0
