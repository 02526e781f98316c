"""The study on traces of an unknown automaton: what a loss on definite positions and log f gain from few examples.

Each arm with each seed is a process of its own, one thread wide, and trains for a number of updates that costs as much
CPU time as those of every other arm. An arm that has its result is not run again. The report is made from the results
alone.

    python -m scripts.propagation.study --jobs 2
    python -m scripts.propagation.study --report_only true --output_dir data/study/propagation
"""

from dataclasses import dataclass, field
from pathlib import Path

from llm_rl.training import fail, need_reports, need_writable, parse, user_errors
from scripts.propagation.arms import TraceJobs
from scripts.propagation.report import write_report
from scripts.propagation.settings import CONTROLS, TRAININGS
from scripts.study.config import StudyConfigError
from scripts.study.results import checked_result
from sudoku_dllm.trials import Records, job_name
from sudoku_dllm.trials.jobs import Job, in_processes


@dataclass
class Arguments:
    """Arguments of `scripts/propagation/study.py`."""

    arms: list[str] = field(default_factory=list, metadata={"help": "Run these arms only; all of them by default."})
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4], metadata={"help": "Seeds of the main arms."})
    control_seeds: list[int] = field(default_factory=lambda: [0], metadata={"help": "Seeds of the controls."})
    jobs: int = field(default=1, metadata={"help": "Processes at a time; not more than free cores."})
    output_dir: str = field(default="runs/propagation", metadata={"help": "Folder of the results."})
    report: str = field(
        default="data/study/propagation/tables.md", metadata={"help": "Report to write, picture in images/ beside."}
    )
    report_only: bool = field(default=False, metadata={"help": "Run nothing; write the report of what is there."})

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ValueError(f"jobs={self.jobs} must be at least 1")
        if unknown := sorted(set(self.arms) - set(TRAININGS)):
            raise ValueError(f"arms {unknown} are unknown; there are {', '.join(TRAININGS)}")


def main() -> None:
    """Run what has no result, and write the report."""
    (args,) = parse(Arguments, description=__doc__)
    need_reports()
    need_writable("output_dir", args.output_dir)
    records, failed = Records(Path(args.output_dir)), list[Job]()
    if not args.report_only:
        wanted = [
            Job(name, seed)
            for name in args.arms or TRAININGS
            for seed in (args.control_seeds if name in CONTROLS else args.seeds)
        ]
        wanted.sort(key=lambda job: job.seed)  # what is there when the study is stopped can be compared
        with user_errors(StudyConfigError):
            waiting = [
                job
                for job in wanted
                if checked_result(records, job_name(job.arm, seed=job.seed), TRAININGS[job.arm].settings) is None
            ]
        print(f"{len(wanted) - len(waiting)} of {len(wanted)} results are there; {len(waiting)} to run.", flush=True)
        if waiting:
            failed = in_processes(TraceJobs(), records.folder, waiting, args.jobs, resume=False)
    with user_errors(StudyConfigError):
        write_report(records.folder, Path(args.report))
    print(f"{args.report} written.")
    if failed:
        fail(f"{len(failed)} trainings failed")


if __name__ == "__main__":
    main()
