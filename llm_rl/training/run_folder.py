"""The folder of a run: one writer at a time, and nothing of an earlier run overwritten unless that is asked for."""

import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from llm_rl.training.errors import CheckpointError
from llm_rl.training.manifest import checkpoints_of
from llm_rl.training.storage import write_text_whole

LOCK, HOLDER = ".run.lock", ".run.holder.json"


def check_writable(folder: Path) -> None:
    """Make a folder if it is not there, and write a file to it that disappears; `CheckpointError` where that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError as error:
        raise CheckpointError(
            f"{folder} cannot be written to: {error.strerror or error}; choose another output_dir"
        ) from error


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold a run folder for the time of a block, or raise a `CheckpointError` that says which process does.

    The lock of a process that was killed is free.
    """
    check_writable(folder)
    lock, holder = FileLock(folder / LOCK, timeout=0), folder / HOLDER
    try:
        lock.acquire()
    except Timeout:
        raise CheckpointError(
            f"{folder} is in use by {_holder(holder)}; wait for its end, stop it, or choose another output_dir"
        ) from None
    try:
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        write_text_whole(holder, json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": started}))
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _holder(path: Path) -> str:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return f"process {found['process']} on {found['host']} since {found['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def start_anew(folder: Path, overwrite: bool) -> None:
    """Raises `CheckpointError` where a fresh run finds checkpoints, which resuming would take for its own.

    With `overwrite` they are deleted.
    """
    old = checkpoints_of(folder)
    if old and not overwrite:
        raise CheckpointError(
            f"{folder} holds {old[-1].name} of an earlier run; go on with it (resume_from_checkpoint='last'), choose "
            "another output_dir, or delete its checkpoints with overwrite_output_dir=True"
        )
    for checkpoint in old:
        shutil.rmtree(checkpoint)
