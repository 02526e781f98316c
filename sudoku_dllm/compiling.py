"""The command `compile`: all kernels of the engine, in advance."""

import argparse
import sys
import time
from pathlib import Path

from sudoku_env.compilation import compile_kernels
from sudoku_env.kernels.cache_folder import cache_folder


def add_compile(parser: argparse.ArgumentParser) -> None:
    """Options of `compile`: there are none."""


def compile(args: argparse.Namespace) -> int:
    """Compile what is not there yet, part by part, and say how long that took and where it is kept."""
    folder = cache_folder()
    if folder is None:
        print("sudoku-dllm compile: no folder for compiled kernels can be written", file=sys.stderr)
        return 2
    before, started = _kept(folder), time.perf_counter()
    compile_kernels(lambda part: print(f"{part} …", flush=True))
    seconds, new = time.perf_counter() - started, _kept(folder) - before
    if new:
        print(f"{len(new)} kernels compiled in {seconds:.0f} s, kept in {folder}")
    else:
        print(f"nothing to compile, all {len(before)} kernels are in {folder}")
    return 0


def _kept(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.nbc")}
