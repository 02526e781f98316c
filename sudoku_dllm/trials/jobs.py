"""Jobs side by side, each in a process of one thread, with a line of progress each."""

import json
import math
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import setitem
from pathlib import Path
from statistics import mean
from threading import Thread
from typing import TYPE_CHECKING, Any

import torch
from tqdm import tqdm

from llm_rl.training.processes import first_says
from llm_rl.training.quiet import quiet_libraries
from sudoku_dllm.trials.record import RESULT, job_name

if TYPE_CHECKING:
    from sudoku_dllm.trials.trial import Trial

LOG = "log.txt"
POLL_SECONDS = 0.5
FIRST_SECONDS, EVERY_SECONDS = 10.0, 20.0
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Job:
    """An arm with a seed."""

    arm: str
    seed: int

    def folder(self, run: Path) -> Path:
        """Where it lies in the folder of its run."""
        return run / job_name(self.arm, seed=self.seed)


class Pace:
    """How long jobs still take, so many at a time, by how fast they went; phases not begun take as long as others'."""

    def __init__(self, jobs: Sequence[Job], at_a_time: int, clock: Callable[[], float]) -> None:
        self.left, self.at_a_time, self.clock = list(jobs), max(at_a_time, 1), clock
        self.seen: dict[tuple[Job, str], tuple[float, float, float, float]] = {}

    def see(self, job: Job, phase: str, share: float) -> None:
        """A job has come so far; what was before its first step, such as reading files, tells no speed."""
        now, before = self.clock(), self.seen.get((job, phase))
        since = before[:2] if before and before[1] > 0 else (now, share)
        self.seen[job, phase] = (*since, now, share)

    def text(self) -> str:
        """What those that run are at, and how long all still take as far as that has been measured."""
        speeds = {key: (t - t0) / (s - s0) for key, (t0, s0, t, s) in self.seen.items() if s > s0 > 0}
        kinds = {of: [seconds for (_, other), seconds in speeds.items() if other == of] for _, of in speeds}
        typical = {phase: mean(seconds) for phase, seconds in kinds.items()}
        each, whole, at = [0.0], True, []
        for job in self.left:
            phases = ("decoding",) if (job, "decoding") in self.seen else ("training", "decoding")
            each.append(0.0)
            for phase in phases:
                share = self.seen[job, phase][3] if (job, phase) in self.seen else 0.0
                each[-1] += (1 - share) * speeds.get((job, phase), typical.get(phase, 0.0))
                whole &= phase in typical
            if (job, phases[0]) in self.seen:
                at.append(f"{job.arm} {phases[0]} {self.seen[job, phases[0]][3]:.0%}")
        minutes = max(1, math.ceil(max(sum(each) / self.at_a_time, *each) / 60))
        left = f"{'about' if whole else 'at least'} {minutes} minute{'s' * (minutes > 1)} left as measured"
        return ", ".join([*at, left] if speeds else at)


class Lines:
    """A line of progress for each job where there is a terminal; elsewhere a line when it begins, one when it ends.

    Between them, after `FIRST_SECONDS` and then every `EVERY_SECONDS`, is told how far all are and how long it takes.
    """

    def __init__(
        self, jobs: Sequence[Job], quiet: bool, at_a_time: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.bars: dict[Job, Any] = {}
        self.pace, self.due = Pace(jobs, at_a_time, clock), clock() + FIRST_SECONDS
        self.several = len({job.seed for job in jobs}) > 1
        self.width = max(len(self.name(job)) for job in jobs)
        if sys.stderr.isatty() and not quiet:
            layout = "  {desc} {bar:30} {percentage:3.0f} % {unit}"
            columns, rows = shutil.get_terminal_size((100, 24))
            shared: dict[str, Any] = {"total": 1.0, "bar_format": layout, "ncols": columns, "nrows": rows, "unit": ""}
            self.bars = {
                job: tqdm(desc=self.name(job).ljust(self.width), position=place, **shared)
                for place, job in enumerate(jobs)
            }

    def name(self, job: Job) -> str:
        """The job's name, with its seed where there are several."""
        return f"{job.arm}, seed {job.seed}" if self.several else job.arm

    def begin(self, job: Job) -> None:
        """It starts."""
        if not self.bars:
            print(f"  {self.name(job).ljust(self.width)} started", flush=True)

    def show(self, job: Job, phase: str, share: float) -> None:
        """It is so far."""
        self.pace.see(job, phase, share)
        if bar := self.bars.get(job):
            bar.n, bar.unit = share, phase
            bar.refresh()
        if (now := self.pace.clock()) >= self.due:
            self.due = now + EVERY_SECONDS
            tqdm.write(f"  {self.pace.text()}")
            sys.stdout.flush()

    def end(self, job: Job, text: str) -> None:
        """It has ended."""
        self.pace.left.remove(job)
        if bar := self.bars.get(job):
            bar.n, bar.unit = 1.0, text
            bar.refresh()
        else:
            print(f"  {self.name(job).ljust(self.width)} {text}", flush=True)

    def close(self) -> None:
        """Leave the lines where they are."""
        for bar in self.bars.values():
            bar.close()


def default_processes(use_cpu: bool) -> int:
    """As many processes as cores that this one may use; 0, which is this one, on an accelerator."""
    if not use_cpu:
        return 0
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_this_process(setting: "Trial", run: Path, jobs: Sequence[Job], *, resume: bool) -> None:
    """Run jobs one after the other; several processes run each together."""
    lines = Lines(jobs, setting.quiet)
    for job in jobs:
        lines.begin(job)
        job.folder(run).mkdir(parents=True, exist_ok=True)
        training, judging = (partial(lines.show, job, phase) for phase in ("training", "decoding"))
        setting.run(job, job.folder(run), resume=resume, training=training, judging=judging)
        lines.end(job, first_says(partial(summary, job.folder(run))))
    lines.close()


def starting(module: str) -> Any:
    """How processes start: as copies of one that has a module imported, where the system can; elsewhere anew."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([module])
    return context


def in_processes(setting: "Trial", run: Path, jobs: Sequence[Job], at_a_time: int, *, resume: bool) -> list[Job]:
    """Run jobs in processes of their own, a thread each, so many at a time; those that failed say why in `log.txt`."""
    modules = (kind.__module__ for kind in type(setting).__mro__)
    context = starting(next(name for name in modules if name != "__main__"))
    lines = Lines(jobs, setting.quiet, at_a_time)
    waiting, failed = list(jobs), list[Job]()
    running: dict[Job, tuple[Any, Any]] = {}
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes inherit it
    try:
        while waiting or running:
            while waiting and len(running) < at_a_time:
                job = waiting.pop(0)
                shares = context.Array("d", [0.0, 0.0])
                folder = job.folder(run)
                folder.mkdir(parents=True, exist_ok=True)
                words = (setting, job, folder, resume, shares)
                process = context.Process(target=_worker, args=words, daemon=True)
                process.start()
                running[job] = (process, shares)
                lines.begin(job)

            # Look after those that run.
            time.sleep(POLL_SECONDS)
            for job, (process, shares) in list(running.items()):
                trained, judged = shares
                lines.show(job, "decoding" if judged else "training", judged or trained)
                if process.exitcode is None:
                    continue
                del running[job]
                if process.exitcode == 0:
                    lines.end(job, summary(job.folder(run)))
                else:
                    failed.append(job)
                    lines.end(job, f"failed with status {process.exitcode}: {last_line(job.folder(run) / LOG)}")
    finally:
        for process, _ in running.values():
            process.terminate()
        lines.close()
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = threads
    return failed


def last_line(log: Path) -> str:
    """The last line of a job's log, which names its error, and where the rest is."""
    written = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{written[-1]} ({log})" if written else f"{log} is empty"


def summary(folder: Path) -> str:
    """What a job cost, in a line."""
    result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    if not result["updates"]:
        return "decoded"
    return f"{result['updates']:,} updates on {result['puzzles_seen']:,} puzzles in {result['cpu_seconds']:.0f} CPU s"


def _worker(setting: "Trial", job: Job, folder: Path, resume: bool, shares: Any) -> None:
    """A job in a process of its own, whose output goes to its log; it ends when the one that started it does."""
    if starter := multiprocessing.parent_process():
        Thread(target=_end_with, args=(starter,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with (folder / LOG).open("a", encoding="utf-8") as log:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(log.fileno(), stream.fileno())
    torch.set_num_threads(1)
    quiet_libraries()

    def judging(share: float) -> None:
        shares[1] = max(share, 1e-6)

    setting.run(job, folder, resume=resume, training=partial(setitem, shares, 0), judging=judging)


def _end_with(starter: Any) -> None:
    """Ends this process, whatever it is at, when the one that started it has ended, by a signal too."""
    starter.join()
    os._exit(1)
