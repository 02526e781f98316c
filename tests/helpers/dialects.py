"""The numerical tests as another processor would run them: `python -m tests.helpers.dialects [NAME ...]`.

Processors add up the same terms in another order and draw other roll-outs from the same seed; a test that holds in
every dialect of one machine, and with other seeds, holds on other machines. Without names all dialects run, as in
`make test-dialects`. `--turn` runs one part of one, as continuous integration does: which one follows from the number
of commits, so that every part has its turn and the same commit runs the same part.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sudoku_env.kernels.cache_folder import cache_folder
from tests.helpers.shift_seeds import ROOT, copy_shifted

TORCH = ("tests/dllm_rl", "tests/llm_rl")
NUMERICAL = (*TORCH, "tests/golden")
PARTS = 2
"""Parts of a dialect in turns, of about two minutes each on two cores."""


@dataclass(frozen=True)
class Dialect:
    """How a machine computes.

    Attributes:
        environment: What makes it compute so.
        shift: What is added to every seed of the tests.
        folders: The tests that can tell.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    shift: int = 0
    folders: Sequence[str] = NUMERICAL


def instructions(aten: str, mkl: str, onednn: str) -> dict[str, str]:
    """The instruction sets that torch's own kernels, MKL and oneDNN keep to."""
    return {"ATEN_CPU_CAPABILITY": aten, "MKL_ENABLE_INSTRUCTIONS": mkl, "ONEDNN_MAX_CPU_ISA": onednn}


DIALECTS = {
    "avx2": Dialect(instructions("avx2", "AVX2", "AVX2")),
    "no_vectors": Dialect(instructions("default", "SSE4_2", "SSE41")),
    "two_threads": Dialect({"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}),
    "other_seeds": Dialect(shift=1, folders=TORCH),
    "generic_kernels": Dialect({"NUMBA_CPU_NAME": "generic"}, folders=("tests/sudoku_env/kernels",)),
}
"""By name. The processor as it is, with one thread, is what `make test` runs; `test-ci` has avx2 in full."""
IN_TURN = [name for name in DIALECTS if name != "avx2"]


def modules(folders: Sequence[str]) -> list[str]:
    """All modules of tests in folders, in their order."""
    return sorted(str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("test_*.py"))


def turn(number: int) -> tuple[str, int]:
    """Which dialect, and which of its parts, has a turn."""
    return IN_TURN[number % len(IN_TURN)], number // len(IN_TURN) % PARTS + 1


def commit_number() -> int:
    """The number of commits; in a shallow clone, which does not have them all, the time of the last one."""

    def git(*words: str) -> str:
        return subprocess.check_output(["git", *words], cwd=ROOT, text=True).strip()

    shallow = git("rev-parse", "--is-shallow-repository") == "true"
    return int(git("log", "-1", "--format=%ct") if shallow else git("rev-list", "--count", "HEAD"))


def run(name: str, part: int | None, pytest_words: Sequence[str]) -> int:
    """Run the tests of a dialect, or one of its parts; pytest's status."""
    dialect = DIALECTS[name]
    chosen = modules(dialect.folders)[part - 1 :: PARTS] if part else list(dialect.folders)
    again = ["python", "-m", "tests.helpers.dialects", name, *(["--part", str(part)] if part else [])]
    settings = " ".join(f"{key}={value!r}" for key, value in dialect.environment.items()) or "as it is"
    print(f"dialect {name} ({settings}; seeds shifted by {dialect.shift})", end="")
    print(
        f", part {part} of {PARTS}" if part else "", f"\nagain: {shlex.join([*again, '--', *pytest_words])}", flush=True
    )

    command = [sys.executable, "-m", "pytest", *pytest_words, *chosen]
    with tempfile.TemporaryDirectory() as temporary:
        tree = ROOT
        if dialect.shift:
            tree = Path(temporary) / "tree"
            copy_shifted(tree, dialect.shift)
        environment = {**os.environ, **dialect.environment, "PYTHONPATH": str(tree)}
        # What inductor has compiled for one instruction set and keeps crashes with another.
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(Path(temporary) / "inductor")
        if (compiled := cache_folder()) is not None and tree != ROOT:  # the copy need not compile its kernels anew
            environment["NUMBA_CACHE_DIR"] = str(compiled.parents[1])
        status = subprocess.run(command, cwd=tree, env=environment).returncode
    print(f"dialect {name}: {'passed' if status == 0 else f'FAILED with status {status}'}", flush=True)
    return status


def main() -> None:
    """Run what the command line asks for; the status is that of the first dialect that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(DIALECTS)} (default: all)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--part", type=int, choices=range(1, PARTS + 1), help="one part of each of them only")
    which.add_argument(
        "--turn", type=int, nargs="?", const=-1, help="the part whose turn it is, by the number of commits or this one"
    )
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:cut])
    pytest_words = words[cut + 1 :] or ["-q", "-n", "2", "--dist", "loadfile"]
    if unknown := [name for name in args.names if name not in DIALECTS]:
        parser.error(f"there is no dialect {unknown[0]!r}; choose from {', '.join(DIALECTS)}")
    if args.turn is not None:
        if args.names:
            parser.error("--turn chooses the dialect; leave the names out")
        wanted = [turn(commit_number() if args.turn == -1 else args.turn)]
    else:
        wanted = [(name, args.part) for name in args.names or DIALECTS]
    statuses = {name: run(name, part, pytest_words) for name, part in wanted}
    if failed := [name for name, status in statuses.items() if status]:
        sys.exit(f"{len(failed)} of {len(statuses)} dialects failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
