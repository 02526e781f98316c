"""Programs in children of a server that has imported torch and transformers: seconds less than a new interpreter each.

A child has the arguments, environment, folder, module path and outputs that an interpreter of its own would have. With
`FRESH_INTERPRETERS=1` in the environment, which `make test-all` sets, interpreters and torchrun are started instead.
"""

import gc
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FRESH = os.environ.get("FRESH_INTERPRETERS", "0") == "1"
LEAVE_JOB = Path(__file__).with_name("leave_job.py")
SERVER = multiprocessing.get_context("forkserver")
# Whatever a test starts in the server finds these imported; the server starts with the first one.
SERVER.set_forkserver_preload(
    [
        "dllm_rl.training.trainer", "dllm_rl.sft", "llm_rl.training.budget", "llm_rl.grpo.trainer", "llm_rl.vapor",
        "llm_rl.raro", "sudoku_env.chat.rows", "peft", "torch.utils.tensorboard",
    ]
)  # fmt: skip


def _play(command: Sequence[str], environment: Mapping[str, str], folder: str, outputs: Sequence[str]) -> None:
    """Be an interpreter that was started with a script and its arguments."""
    import torch

    gc.freeze()  # collections leave alone, and do not copy, what the server imported
    for number, path in enumerate(outputs, start=1):
        descriptor = os.open(path, os.O_WRONLY)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if threads := environment.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    installed = [path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix)) or path == str(ROOT)]
    added = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [str(Path(command[0]).parent), *added, *installed]
    sys.argv = list(command)
    runpy.run_path(command[0], run_name="__main__")


class WarmProgram:
    """A script that runs in a child of the server; used like `subprocess.Popen` with text pipes for both outputs."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: str) -> None:
        self._command = command
        self._outputs = [tempfile.NamedTemporaryFile(mode="r", encoding="utf-8") for _ in range(2)]
        names = [output.name for output in self._outputs]
        self._process = SERVER.Process(target=_play, args=(command, dict(environment), folder, names))
        self._process.start()

    @property
    def returncode(self) -> int | None:
        """None while it runs; the negative number of the signal that ended it."""
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end; what was written to standard output and to standard error."""
        self._process.join(timeout)
        if self.returncode is None:
            self.kill()
            raise subprocess.TimeoutExpired(self._command, timeout or 0.0)
        return self._outputs[0].read(), self._outputs[1].read()


def with_root_first(*further: str | None) -> str:
    """A PYTHONPATH on which this tree stands before installed packages: verl's wheel has a `scripts` and a `tests`."""
    return os.pathsep.join(filter(None, [str(ROOT), *further]))


def start_script(
    script: Path | str,
    words: Sequence[object] = (),
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    fresh: bool = FRESH,
) -> "WarmProgram | subprocess.Popen[str]":
    """Start a Python script with words of its command line; the environment and folder are those of the caller."""
    command = [str(script), *map(str, words)]
    environment, folder = dict(os.environ if env is None else env), str(Path.cwd() if cwd is None else cwd)
    environment["PYTHONPATH"] = with_root_first(environment.get("PYTHONPATH"))
    if fresh:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([sys.executable, *command], cwd=folder, env=environment, text=True, **pipes)
    return WarmProgram(command, environment, folder)


def run_script(
    script: Path | str,
    words: Sequence[object] = (),
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    timeout: float | None = 600,
    fresh: bool = FRESH,
) -> subprocess.CompletedProcess[str]:
    """Run a Python script to its end, as `subprocess.run` with `capture_output` and `text` would."""
    process = start_script(script, words, env=env, cwd=cwd, fresh=fresh)
    output, errors = process.communicate(timeout=timeout)
    assert process.returncode is not None
    return subprocess.CompletedProcess([str(script), *map(str, words)], process.returncode, output, errors)


def finished(script: Path | str, words: Sequence[object] = (), **options: Any) -> subprocess.CompletedProcess[str]:
    """What `run_script` tells of a script that must succeed."""
    done = run_script(script, words, **options)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def run_in_two_processes(
    script: Path, words: Sequence[object], *, timeout: float = 600, fresh: bool = FRESH
) -> subprocess.CompletedProcess[str]:
    """`run_in_processes` with two of them."""
    return run_in_processes(2, script, words, timeout=timeout, fresh=fresh)


def run_in_processes(
    count: int, script: Path, words: Sequence[object], *, timeout: float = 600, fresh: bool = FRESH
) -> subprocess.CompletedProcess[str]:
    """Run a script in several processes of one job, as torchrun does; the module path has the script's folder.

    Returns:
        The first exit code that is not 0, or 0, with the outputs of all processes.
    """
    path = with_root_first(str(script.parent), os.environ.get("PYTHONPATH"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    if fresh:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count)]
        command = [*launcher, str(LEAVE_JOB), str(script), *map(str, words)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    job = {**environment, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    job |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    ranks = [
        WarmProgram([str(script), *map(str, words)], {**job, "RANK": rank, "LOCAL_RANK": rank}, os.getcwd())
        for rank in map(str, range(count))
    ]
    deadline = time.monotonic() + timeout
    while None in (codes := [rank.returncode for rank in ranks]) and not any(codes):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    failed = next((code for code in codes if code), 0 if None not in codes else -signal.SIGALRM)
    for rank in ranks:
        if rank.returncode is None:
            rank.kill()
    outputs, errors = zip(*(rank.communicate() for rank in ranks), strict=True)
    return subprocess.CompletedProcess([str(script)], failed, "".join(outputs), "".join(errors))
