"""The study on traces of an unknown automaton: what a loss on definite positions and log f gain from few examples.

Each arm with each seed is a process of its own, one thread wide, and trains for a number of updates that costs as much
CPU time as those of every other arm (`--calibrate` measures it, arms in turn). An arm that has its result is not run
again. The report is made from the results alone.

    python -m scripts.propagation.study --jobs 2
    python -m scripts.propagation.study --report_only true --output_dir data/study/propagation
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from transformers.utils import logging as transformers_logging

from llm_rl.training import fail, need_reports, need_writable, parse, user_errors
from scripts.propagation.arms import run_arm, train
from scripts.propagation.report import write_report
from scripts.propagation.settings import BUDGET_SECONDS, CONTROLS, MAIN, TRAININGS
from scripts.study.config import StudyConfigError
from scripts.study.results import checked_result
from sudoku_dllm.machine import machine
from sudoku_dllm.trials import Records, job_name

CALIBRATION_UPDATES = 15


@dataclass
class Arguments:
    """Arguments of `scripts/propagation/study.py`."""

    arms: list[str] = field(default_factory=list, metadata={"help": "Run these arms only; all of them by default."})
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4], metadata={"help": "Seeds of the main arms."})
    control_seeds: list[int] = field(default_factory=lambda: [0], metadata={"help": "Seeds of the controls."})
    jobs: int = field(default=1, metadata={"help": "Processes at a time; not more than free cores."})
    output_dir: str = field(default="runs/propagation", metadata={"help": "Folder of the results."})
    report: str = field(default="docs/propagation.md", metadata={"help": "Report to write, picture in images/ beside."})
    report_only: bool = field(default=False, metadata={"help": "Run nothing; write the report of what is there."})
    calibrate: int = field(default=0, metadata={"help": "Only measure the CPU time of updates, in so many rounds."})
    worker: bool = field(default=False, metadata={"help": "Run the one arm with the one seed in this process."})

    def __post_init__(self) -> None:
        if self.jobs < 1 or self.calibrate < 0:
            raise ValueError(f"jobs={self.jobs} must be at least 1 and calibrate={self.calibrate} at least 0")
        if unknown := sorted(set(self.arms) - set(TRAININGS)):
            raise ValueError(f"arms {unknown} are unknown; there are {', '.join(TRAININGS)}")


def calibrate(names: list[str], rounds: int) -> None:
    """Print the CPU time of an update of each arm, the median over rounds in which all arms take their turn."""
    spent: dict[str, list[float]] = {name: [] for name in names}
    with TemporaryDirectory() as scratch:
        for _ in range(rounds):
            for name in names:
                _, budget = train(TRAININGS[name], 0, Path(scratch), steps=CALIBRATION_UPDATES)
                spent[name].append(budget.cpu_seconds / CALIBRATION_UPDATES)
    for name, each in spent.items():
        seconds = median(each)
        print(
            f"{name}: {1000 * seconds:.1f} ms an update ({1000 * min(each):.1f} to {1000 * max(each):.1f}), "
            f"{BUDGET_SECONDS / seconds:.0f} updates in {BUDGET_SECONDS} s",
            flush=True,
        )


def run(job: tuple[str, int]) -> bool:
    """Run an arm with a seed in a process of its own; whether it went well."""
    name, seed = job
    folder, started = Path(args.output_dir) / job_name(name, seed=seed), time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("w", encoding="utf-8") as log:
        status = subprocess.run(
            [
                *(sys.executable, "-m", "scripts.propagation.study", "--worker", "true"),
                *("--arms", name, "--seeds", str(seed), "--output_dir", args.output_dir),
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    state = "done" if status == 0 else f"failed with status {status}, see {folder / 'log.txt'}"
    print(f"{name} {seed}: {state} ({time.perf_counter() - started:.0f} s)", flush=True)
    return status == 0


if __name__ == "__main__":
    (args,) = parse(Arguments, description=__doc__)
    torch.set_num_threads(1)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    names = args.arms or list(TRAININGS)
    jobs = [(name, seed) for name in names for seed in (args.control_seeds if name in CONTROLS else args.seeds)]
    jobs.sort(key=lambda job: job[1])  # what is there when the study is stopped can be compared
    if args.calibrate:
        calibrate(args.arms or list(MAIN), args.calibrate)
    elif args.worker:
        ((name, seed),) = [(name, seed) for name in names for seed in args.seeds]
        folder = Path(args.output_dir) / job_name(name, seed=seed)
        run_arm(TRAININGS[name], name, seed, folder, machine=machine())
    else:
        need_reports()
        need_writable("output_dir", args.output_dir)
        failed = 0
        if not args.report_only:
            records = Records(Path(args.output_dir))
            with user_errors(StudyConfigError):
                waiting = [
                    (name, seed)
                    for name, seed in jobs
                    if checked_result(records, job_name(name, seed=seed), TRAININGS[name].settings) is None
                ]
            print(f"{len(jobs) - len(waiting)} of {len(jobs)} results are there; {len(waiting)} to run.", flush=True)
            with ThreadPoolExecutor(args.jobs) as pool:
                failed = list(pool.map(run, waiting)).count(False)
        with user_errors(StudyConfigError):
            write_report(Path(args.output_dir), Path(args.report))
        print(f"{args.report} written.")
        if failed:
            fail(f"{failed} trainings failed")
