"""When to kill: the rhythm of a run that was left alone, and moments drawn over it."""

import os
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

POLL = 0.002
_NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True)
class Rhythm:
    """When a run that was left alone wrote what.

    Attributes:
        seconds: From start to end.
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
    def starting_seconds(self) -> float:
        """From start to the first step, estimated by the first checkpoint's time less the time between two of them."""
        times = sorted(self.seen.values())
        gaps = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
        return max(times[0] - median(gaps), 0.0) if gaps else 0.0


@dataclass(frozen=True)
class Moment:
    """When to kill: some time after a checkpoint was seen.

    Attributes:
        after: Step of the checkpoint; None: the program's start.
        before: Step of the next checkpoint, at whose sight it is high time; None: there is none.
        delay: Seconds after the first.
        while_saving: Then wait for the next checkpoint's first sight.
        pause: Seconds after that.
    """

    after: int | None
    before: int | None
    delay: float
    while_saving: bool
    pause: float


def draw_moments(rhythm: Rhythm, kills: int, seed: int) -> list[Moment]:
    """Draw moments uniformly over a run, in their order; about half of them wait for a checkpoint that is being written.

    Args:
        rhythm: Of the run that was left alone.
        kills: How many.
        seed: Of the draws.
    """
    source = random.Random(seed)
    moments = []
    for moment in sorted(source.uniform(0.0, rhythm.seconds) for _ in range(kills)):
        after = max((step for step, seen in rhythm.seen.items() if seen <= moment), default=None)
        before = min((step for step, seen in rhythm.seen.items() if seen > moment), default=None)
        while_saving = source.random() < 0.5 and before is not None
        delay = 0.0 if while_saving else moment - (0.0 if after is None else rhythm.seen[after])
        moments.append(Moment(after, before, delay, while_saving, source.uniform(0.0, rhythm.saving_seconds)))
    return moments


def observe(folder: Path, ended: Callable[[], bool]) -> Rhythm:
    """Watch a run from its start to its end.

    Args:
        folder: Where it trains.
        ended: Whether it has ended.

    Raises:
        ValueError: It wrote no checkpoint.
    """
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
    return Rhythm(time.monotonic() - began, seen, max(times, default=0.0) - min(times, default=0.0), file_names(last), entries)


def checkpoints(folder: Path) -> dict[int, Path]:
    """The folders `checkpoint-<step>` by step, whole or not."""
    return {
        int(match.group(1)): folder / name for name in directories(folder) if (match := _NAME.fullmatch(name)) is not None
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
