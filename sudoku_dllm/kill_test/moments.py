"""When to kill: the rhythm of a run that was left alone, and moments drawn over it."""

import os
import random
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

POLL = 0.002
SAVING_SHARE, STARTING_SHARE = 0.5, 0.1
CHECKPOINT = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True)
class Rhythm:
    """When a run that was left alone wrote what.

    Attributes:
        seconds: How long the run took, from start to end.
        seen: Seconds from the start to the first sight of each checkpoint, by step.
        saving_seconds: How long a checkpoint took to write.
        files: Names of the files of a checkpoint.
        entries: What lay in the folder at the end.
    """

    seconds: float
    seen: dict[int, float]
    saving_seconds: float
    files: frozenset[str]
    entries: frozenset[str]

    @property
    def gap_seconds(self) -> float:
        """The median time between two checkpoints; 0: there was one."""
        times = sorted(self.seen.values())
        return median(later - earlier for earlier, later in pairwise(times)) if len(times) > 1 else 0.0

    @property
    def starting_seconds(self) -> float:
        """From start to the first step, estimated by the first checkpoint's time less the time between two of them."""
        return max(min(self.seen.values()) - self.gap_seconds, 0.0)


@dataclass(frozen=True)
class Moment:
    """When to kill: some time after a checkpoint of the run left alone.

    Attributes:
        phase: "starting": `delay` counts from the program's start; "saving": at the next folder's sight; "training".
        after: Step of the checkpoint; None: the program's start.
        delay: Seconds after that; where the program goes on from there, after the time that it takes to start.
        spare: Seconds after the first new checkpoint, at the latest, as the time to start is but an estimate. A start
            after one that came to no new checkpoint is always given one.
        pause: Seconds after the sight of a folder that is being written.
    """

    phase: str
    after: int | None
    delay: float
    spare: float
    pause: float


def draw_moments(rhythm: Rhythm, kills: int, seed: int) -> list[Moment]:
    """Draw moments over a run from its first step to its end, uniformly in each of as many equal parts.

    About half of them wait for the next checkpoint that is being written; one in ten comes while the program starts.
    """
    source, starting, last = random.Random(seed), rhythm.starting_seconds, max(rhythm.seen.values())
    end = min(rhythm.seconds, last + 2 * rhythm.gap_seconds) if rhythm.gap_seconds else rhythm.seconds
    moments = []
    for part in range(kills):
        moment = starting + (end - starting) * (part + source.random()) / kills
        after = max((step for step, seen in rhythm.seen.items() if seen <= moment), default=None)
        following = [seen for seen in rhythm.seen.values() if seen > moment]
        delay, kind = moment - (0.0 if after is None else rhythm.seen[after]), source.random()
        if after is not None and following:  # a run that was held up for a while is no measure
            delay *= rhythm.gap_seconds / (min(following) - rhythm.seen[after])
        elif after is not None and end > last:  # all that comes after the last checkpoint counts as two gaps
            delay *= (rhythm.seconds - last) / (end - last)
        phase = "training"
        if kind < STARTING_SHARE:
            phase, delay = "starting", source.uniform(0.0, starting + rhythm.gap_seconds)
        elif kind < STARTING_SHARE + SAVING_SHARE and following:
            phase = "saving"
        spare, pause = source.uniform(0.0, rhythm.gap_seconds), source.uniform(0.0, rhythm.saving_seconds)
        moments.append(Moment(phase, after, delay, spare, pause))
    return moments


class Trigger:
    """Says when a moment, as drawn by the rhythm of the run left alone, has come after a start at the time `began`.

    `found` are steps of the checkpoints that are there then; only an `early` one may come before a new checkpoint.
    """

    def __init__(self, moment: Moment, rhythm: Rhythm, found: Iterable[int], early: bool, began: float) -> None:
        self.moment, self.ignored, self.last = moment, rhythm.entries, max(found, default=0)
        self.saving, self.after = moment.phase == "saving", moment.after or 0
        self.reached = self.last >= self.after
        self.known: dict[str, int] | None = None
        self.at = float("inf")
        if early and moment.phase == "starting":
            self.at = began + moment.delay
        elif early and moment.phase == "training" and self.reached:
            started = rhythm.starting_seconds if moment.after is not None else 0.0
            self.at = began + started + moment.delay  # a moment before the first checkpoint holds the time to start

    def due(self, now: float, folders: dict[str, int], found: Iterable[int]) -> bool:
        """Whether to kill now."""
        passed = any(step > self.last and step >= self.after for step in found)
        if self.saving and (passed or self.reached):
            fresh = folders.items() - (folders if self.known is None else self.known).items()
            if any(name not in self.ignored or CHECKPOINT.fullmatch(name) for name, _ in fresh):
                self.at = min(self.at, now + self.moment.pause)
        elif passed:
            self.at = min(self.at, now + (self.moment.spare if self.reached else self.moment.delay))
        self.known = folders
        return now >= self.at


def observe(folder: Path, ended: Callable[[], bool]) -> Rhythm:
    """Watch a run in a folder from its start to its end; a ValueError if it wrote no checkpoint."""
    began, seen = time.monotonic(), dict[int, float]()
    while True:
        over = ended()
        for step in checkpoints(folder):
            seen.setdefault(step, time.monotonic() - began)
        if over:
            break
        time.sleep(POLL)
    if not checkpoints(folder):
        raise ValueError(f"the run in {folder} left no folder checkpoint-<step>; let it save checkpoints there")
    last = checkpoints(folder)[max(checkpoints(folder))]
    times = [path.stat().st_mtime for path in last.rglob("*")]
    entries = frozenset(path.name for path in folder.iterdir())
    return Rhythm(
        time.monotonic() - began, seen, max(times, default=0.0) - min(times, default=0.0), file_names(last), entries
    )


def checkpoints(folder: Path) -> dict[int, Path]:
    """The folders `checkpoint-<step>` by step, whole or not."""
    return {
        int(match.group(1)): folder / name
        for name in directories(folder)
        if (match := CHECKPOINT.fullmatch(name)) is not None
    }


def directories(folder: Path) -> dict[str, int]:
    """Names and inodes of the folders in a folder that may not be there yet."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.inode() for entry in entries if entry.is_dir(follow_symlinks=False)}
    except FileNotFoundError:
        return {}


def file_names(folder: Path) -> frozenset[str]:
    """The files in a folder and below, as paths within it."""
    return frozenset(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
