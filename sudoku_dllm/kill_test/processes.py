"""A training program in a process group of its own, which can be killed with all that it started."""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil

FOLDER = "{folder}"
Program = Sequence[str] | Callable[[Path], object]
"""A command with `{folder}` in one of its arguments, or a picklable function of the folder."""


class Started:
    """A program that was just started.

    Args:
        program: What to run. A function runs in a process of multiprocessing's `forkserver`.
        folder: Replaces `{folder}`.
        log: Where standard output and error go, behind what is there.

    Raises:
        OSError: The command cannot be started.
    """

    def __init__(self, program: Program, folder: Path, log: Path) -> None:
        self._command: subprocess.Popen[bytes] | None = None
        self._function: BaseProcess | None = None
        if callable(program):
            context = multiprocessing.get_context("forkserver")
            self._function = context.Process(target=_call, args=(program, folder, log))
            self._function.start()
            self.pid = self._function.pid or 0
            return
        words = [word.replace(FOLDER, str(folder)) for word in program]
        with log.open("ab") as output:
            self._command = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.pid = self._command.pid

    def exit_code(self) -> int | None:
        """None while it runs; the negative signal where one ended it."""
        return self._command.poll() if self._command else self._function.exitcode if self._function else None

    def kill(self) -> None:
        """End it and everything that it started with SIGKILL, and wait for its end."""
        family = []
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGSTOP)  # the moment is now; finding the family takes a while
        with suppress(psutil.NoSuchProcess):
            family = psutil.Process(self.pid).children(recursive=True)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._function:
            self._function.kill()  # it may not yet have made its own group
        for process in family:  # launchers such as torchrun put their workers into other groups
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, timeout=10)
        if self._command:
            self._command.wait()
        if self._function:
            self._function.join()


def check_command(command: Sequence[str]) -> None:
    """Refuse a command that is empty, or of which no argument holds `{folder}`, before anything runs."""
    if not any(FOLDER in word for word in command):
        raise ValueError(
            f"the command {' '.join(command)!r} does not say where to train; write {FOLDER} in the place of its folder"
        )


def _call(function: Callable[[Path], object], folder: Path, log: Path) -> None:
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    function(folder)
