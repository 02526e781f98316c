"""The study: trainings and controls at equal budgets, in every regime of a configuration file, and their report.

Each arm with each seed is a process of its own, one thread wide. An arm that has its result file is not run again, so a
study that was stopped goes on where it was.

    python -m scripts.study.run configs/causes.yaml --jobs 2 --output_dir runs/causes --report runs/causes.md
    python -m scripts.study.run configs/causes.yaml --report_only true --output_dir data/study/causes
"""

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from llm_rl.training import USER_ERRORS, fail, need_file, need_model, need_reports, need_writable, parse, user_errors
from scripts.study.arm import StudyJobs, training_arguments
from scripts.study.config import BASE, Regime, StudyConfigError, load_study
from scripts.study.page import write_page
from scripts.study.report import write_report
from scripts.study.results import RegimeResults, checked_result, jobs
from scripts.study.tables import room_table
from sudoku_dllm.trials import Records, job_name
from sudoku_dllm.trials.jobs import Job, in_processes
from sudoku_env import SudokuError


@dataclass
class Arguments:
    """Arguments of `scripts/study/run.py`."""

    config: str = field(metadata={"help": "The study, YAML; see scripts.study.config.Regime."})
    regimes: list[str] = field(default_factory=list, metadata={"help": "Run these regimes only."})
    arms: list[str] = field(default_factory=list, metadata={"help": 'Run these arms only, "base" included.'})
    seeds: list[int] = field(default_factory=list, metadata={"help": "Run these seeds only."})
    jobs: int = field(default=1, metadata={"help": "Processes at a time; not more than free cores."})
    report_only: bool = field(default=False, metadata={"help": "Run nothing; write the report of what is there."})
    output_dir: str = field(default="runs/study", metadata={"help": "Folder of results, logs and models."})
    report: str = field(default="runs/study.md", metadata={"help": "Report to write, pictures in images/ beside."})

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ValueError(f"jobs={self.jobs} must be at least 1")


def selected(regimes: dict[str, Regime], args: Arguments) -> list[Job]:
    """The jobs that the command asks for, in an order in which they can run."""
    known: dict[str, tuple[list[Any], set[Any]]] = {
        "regimes": (args.regimes, set(regimes)),
        "arms": (args.arms, {BASE, *(arm for regime in regimes.values() for arm in regime.arms)}),
        "seeds": (args.seeds, {seed for regime in regimes.values() for seed in regime.seeds}),
    }
    for name, (asked, there) in known.items():
        if unknown := [one for one in asked if one not in there]:
            fail(f"{name} {unknown} are not in {args.config}; it has {sorted(there)}")
    return [
        Job(f"{name}/{arm}", seed)
        for name, regime in regimes.items()
        for arm, seed in jobs(regime)
        if (not args.regimes or name in args.regimes)
        and (not args.arms or arm in args.arms)
        and (not args.seeds or seed in args.seeds or arm == BASE)
    ]


def check(wanted: list[Job], regimes: dict[str, Regime]) -> None:
    """End the program where a job needs a file that is missing, or an argument that its trainer refuses."""
    for name in dict.fromkeys(job.arm.rpartition("/")[0] for job in wanted):
        regime = regimes[name]
        for option in ("train", "validation", "test", "hard_test"):
            if (path := getattr(regime, option)) is not None:
                need_file(f"config, regime {name}, {option}", path)
        need_model(f"config, regime {name}, base", regime.base)
    with TemporaryDirectory() as scratch:
        for job in wanted:
            name, _, arm = job.arm.rpartition("/")
            if arm != BASE:
                with user_errors(ValueError):
                    training_arguments(regimes[name].arms[arm], Path(scratch), job.seed)


def run_all(wanted: list[Job], regimes: dict[str, Regime], args: Arguments) -> list[Job]:
    """Run what has no result yet, at most `args.jobs` at a time, borrowed budgets after their lenders.

    Returns:
        The jobs that failed, or could not start because their lender has no result.
    """
    records, study = Records(Path(args.output_dir)), StudyJobs(regimes, Path(args.output_dir))

    def has_result(job: Job) -> bool:
        name, _, arm = job.arm.rpartition("/")
        return checked_result(records, job_name(job.arm, seed=job.seed), regimes[name].settings(arm)) is not None

    waiting = [job for job in wanted if not has_result(job)]
    print(f"{len(wanted) - len(waiting)} of {len(wanted)} results are there; {len(waiting)} to run.", flush=True)
    first = [job for job in waiting if study.lender(job) is None]
    failed = in_processes(study, records.folder, first, args.jobs, resume=False) if first else []
    for job in first:
        name, _, arm = job.arm.rpartition("/")
        if arm == BASE and job not in failed:
            print(room_table(RegimeResults(records, name, regimes[name]), "test"), flush=True)
    second = []
    for job in waiting:
        if lender := study.lender(job):
            if has_result(lender):
                second.append(job)
            else:
                failed.append(job)
                print(f"{told(job)}: its budget is that of {lender.arm.rpartition('/')[2]!r}, which has no result")
    return failed + (in_processes(study, records.folder, second, args.jobs, resume=False) if second else [])


def told(job: Job) -> str:
    """Regime, arm and seed."""
    return f"{job.arm.replace('/', ' ')} {job.seed}"


def main() -> None:
    """Run what is asked for and has no result, and write the report."""
    (args,) = parse(Arguments, description=__doc__, places=("config",))
    need_file("config", args.config)
    need_reports()
    with user_errors(*USER_ERRORS, SudokuError, StudyConfigError):
        regimes, remarks = load_study(args.config)
    wanted = selected(regimes, args)
    failed: list[Job] = []
    if not args.report_only:
        check(wanted, regimes)
        need_writable("output_dir", args.output_dir)
        with user_errors(StudyConfigError):
            failed = run_all(wanted, regimes, args)
    command = shlex.join(["python", "-m", "scripts.study.run", args.config])
    with user_errors(StudyConfigError):
        records = Records(Path(args.output_dir))
        found = [RegimeResults(records, name, regime) for name, regime in regimes.items()]
    write_report(found, Path(args.report), remarks=remarks, command=command)
    print(f"{args.report} written.")
    if any(results.results for results in found):
        print(f"Report, for a browser: {write_page(found, Path(args.output_dir), command)}")
    if failed:
        raise SystemExit(f"{len(failed)} of {len(wanted)} did not finish: {', '.join(map(told, failed))}")


if __name__ == "__main__":
    main()
