"""A run that is killed and started again until it ends."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sudoku_dllm.kill_test.moments import POLL, Moment, Rhythm, Trigger, checkpoints, directories, file_names
from sudoku_dllm.kill_test.processes import Program, Started

REMOVED = "removed"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kill:
    """One kill.

    Attributes:
        seconds: Since the program's start.
        step: That of the last whole checkpoint; None: there was none.
        phase: "starting", "training", or "saving" where something unfinished was on the disk.
        unfinished: Names of the folders that were not whole.
        started_over: Whether the next start wrote checkpoints again that were whole, instead of going on.
    """

    seconds: float
    step: int | None
    phase: str
    unfinished: tuple[str, ...]
    started_over: bool = False


@dataclass(frozen=True)
class Failure:
    """A start that did not go on.

    Attributes:
        after_kills: How many kills came before.
        exit_code: The exit code of the program; None: it took longer than it may.
        last_line: The end of what it printed.
        removed: The checkpoint that was then taken away, to start again from the one before; None: there was none.
    """

    after_kills: int
    exit_code: int | None
    last_line: str
    removed: str | None


class KilledRun:
    """A run that is killed at moments, by the rhythm of one that was left alone.

    The program, which is started again after each kill, trains in the folder and prints to the log; each start may take
    `timeout` seconds.
    """

    def __init__(self, program: Program, folder: Path, log: Path, rhythm: Rhythm, timeout: float) -> None:
        self.program, self.folder, self.log = program, folder, log
        self.rhythm, self.timeout = rhythm, timeout
        self.kills: list[Kill] = []
        self.failures: list[Failure] = []
        self._stopped_at, self._stopped_with = 0.0, -1
        self._there: dict[str, int] = {}
        self._went_on = True

    def play(self, moments: Sequence[Moment]) -> bool:
        """Kill at each moment, then let the program end; whether it did. A failed start gets the checkpoint before."""
        ahead: list[Moment | None] = [*moments, None]
        while True:
            began, self._there = time.monotonic(), directories(self.folder)
            process = Started(self.program, self.folder, self.log)
            try:
                due = self._wait(process, ahead[0], began)
            finally:
                code = process.exit_code()
                process.kill()
            self._look_back()
            if due and code is None:
                self._note_kill(time.monotonic() - began)
                ahead.pop(0)
            elif code == 0:
                return True
            elif not self._note_failure(code):
                return False

    def _wait(self, process: Started, moment: Moment | None, began: float) -> bool:
        """Wait for the moment; false if the process ended before or the time is over."""
        trigger = None
        _logger.debug("waiting for %s", moment)
        if moment is not None:
            trigger = Trigger(moment, self.rhythm, checkpoints(self.folder), self._went_on, began)
        while process.exit_code() is None and (now := time.monotonic()) < began + self.timeout:
            if trigger is not None and trigger.due(now, directories(self.folder), checkpoints(self.folder)):
                return True
            time.sleep(POLL)
        return False

    def _whole(self) -> dict[int, Path]:
        return {step: path for step, path in checkpoints(self.folder).items() if self.rhythm.files <= file_names(path)}

    def _note_kill(self, seconds: float) -> None:
        whole = {path.name for path in self._whole().values()}
        known = whole | self.rhythm.entries - {path.name for path in checkpoints(self.folder).values()}
        fresh = dict(directories(self.folder).items() - self._there.items())
        unfinished = tuple(sorted(fresh.keys() - known))
        starting = seconds < self.rhythm.starting_seconds and not fresh
        phase = "saving" if unfinished else "starting" if starting else "training"
        step = max(self._whole(), default=None)
        self._went_on = step is not None and step > self._stopped_with
        self.kills.append(Kill(seconds, step, phase, unfinished))
        self._note_stop()
        told = "kill %d after %.1f s while %s, last whole checkpoint %s"
        _logger.info(told, len(self.kills), seconds, phase, step)

    def _note_stop(self) -> None:
        self._stopped_at, self._stopped_with = time.time(), max(self._whole(), default=-1)

    def _look_back(self) -> None:
        """Say of the last kill whether the start after it wrote again what was there."""
        for step, path in self._whole().items():
            newest = max(file.stat().st_mtime for file in path.rglob("*"))
            if step <= self._stopped_with and newest > self._stopped_at:
                self.kills[-1] = replace(self.kills[-1], started_over=True)

    def _note_failure(self, code: int | None) -> bool:
        """Take the last checkpoint away; false if there is none."""
        found = checkpoints(self.folder)
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        last = found[max(found)] if found else None
        if last is not None:
            place = self.log.parent / REMOVED
            place.mkdir(exist_ok=True)
            last.rename(place / f"{len(self.failures) + 1}-{last.name}")
        told = lines[-1].strip() if lines else ""
        self.failures.append(Failure(len(self.kills), code, told, last.name if last else None))
        self._note_stop()
        _logger.info("exit code %s after %d kills: %s", code, len(self.kills), told)
        return last is not None
