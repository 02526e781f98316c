"""Trials: trainings from one start for each seed, each to the same budget, judged on the same held-out problems.

A `Trial` says what the start is, what trainer an arm has and what a model is worth; how jobs are run, resumed and kept,
the intervals and the tables are here, for every comparison alike:

    class Mine(Trial):
        ARMS = {"mine": "my objective", "control": "more of the same"}
        …

    if __name__ == "__main__":
        run_trial(Mine, TrialArguments)
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedModel, Trainer, set_seed

from llm_rl.training.arguments import check_seed
from llm_rl.training.budget import UNLIMITED_STEPS, Budget, trapezoid
from llm_rl.training.command_line import need_reports, parse
from llm_rl.training.output_folder import RunFolder
from llm_rl.training.quiet import quiet_libraries
from sudoku_dllm.machine import machine
from sudoku_dllm.trials.command import carry_out, check_same, need_whole_run
from sudoku_dllm.trials.jobs import Job, Progress, default_processes
from sudoku_dllm.trials.record import write_job
from sudoku_dllm.trials.training import MODEL, train_job
from sudoku_dllm.trials.trial_report import START, chosen_arms, report

Judgement = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]
"""What a model is worth: figures for its result, and outcomes by name, an entry for each held-out problem."""


@dataclass
class TrialArguments:
    """What every trial takes; one adds its own by inheriting.

    Attributes:
        TRIAL: The trial.
    """

    arms: list[str] | None = field(default=None, metadata={"help": "Trainings to compare; all of them by default."})
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2], metadata={"help": "Random seeds of start and arms."})
    cpu_seconds: float = field(default=240.0, metadata={"help": "What each arm may spend, in CPU seconds."})
    max_steps: int | None = field(
        default=None, metadata={"help": "Updates of each arm in place of seconds; a seed then gives the same twice."}
    )
    warmup_share: float = field(default=0.05, metadata={"help": "Share of the budget in which the rate rises."})
    decay_share: float = field(default=0.3, metadata={"help": "Share at its end in which the rate falls to 0."})
    jobs: int | None = field(
        default=None,
        metadata={"help": "Trainings at a time, a process of one thread each; by default as many as cores."},
    )
    output_dir: str = field(default="runs/trial", metadata={"help": "Run folder."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Replace a run in the folder."})
    resume_from_checkpoint: str | None = field(
        default=None, metadata={"help": "last: keep the results that are there, begin the others anew."}
    )

    def __post_init__(self) -> None:
        for seed in self.seeds:
            check_seed("seeds", seed)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds={self.seeds} must name at least one, and none twice")
        if not self.cpu_seconds > 0 or (self.max_steps is not None and self.max_steps < 1):
            raise ValueError(f"cpu_seconds={self.cpu_seconds} and max_steps={self.max_steps} must be positive")
        if self.jobs is not None and self.jobs < 0:
            raise ValueError(f"jobs={self.jobs} must be 0, which is this process, or larger")
        trapezoid(self.warmup_share, self.decay_share)

    @property
    def budget(self) -> Budget:
        """What an arm may spend."""
        return Budget("steps", self.max_steps) if self.max_steps else Budget("cpu_seconds", self.cpu_seconds)


class Trial(ABC):
    """What is compared; it travels to the processes of its jobs, so that what cannot be pickled is made when asked for.

    Attributes:
        ARMS: What the arms are called in tables, by their names.
        CONTROL: The arm that the others are compared with beside the start, if there is one.
        FIGURES: What tables show of a result beside what is solved, and how it is called there.
        KEEPS_MODELS: Whether the folder of an arm keeps its model, as that of a start does.
        args: The arguments.
    """

    ARMS: ClassVar[Mapping[str, str]]
    CONTROL: ClassVar[str | None] = None
    FIGURES: ClassVar[Mapping[str, str]] = {}
    KEEPS_MODELS: ClassVar[bool] = False

    def __init__(self, args: Any) -> None:
        self.args = args

    @abstractmethod
    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """The model that all arms of a seed begin with, trained anew.

        Args:
            seed: Random seed.
            folder: Where its training may write.
        """

    @abstractmethod
    def load(self, folder: Path) -> PreTrainedModel:
        """A start that was saved to a folder."""

    @abstractmethod
    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm; what making it takes (sampling pairs, say) is spent of the arm's budget.

        Args:
            arm: One of `ARMS`.
            model: A copy of the start, to be trained in place.
            seed: Random seed.
            folder: Where it writes.
        """

    @abstractmethod
    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """What a model is worth: the outcome "solved", where there is one, and `FIGURES`.

        Args:
            model: A start, or an arm's model.
            seed: Its random seed.
            folder: Where judging may write.
        """


def short_training(folder: Path, batch_size: int, seed: int, learning_rate: float) -> dict[str, Any]:
    """Arguments of a training on CPU that writes nothing but its log, and ends by its budget.

    Args:
        folder: Where its log goes.
        batch_size: `per_device_train_batch_size`.
        seed: Random seed.
        learning_rate: Rate.
    """
    return {
        "output_dir": str(folder / "trainer"),
        "overwrite_output_dir": True,
        "max_steps": UNLIMITED_STEPS,
        "per_device_train_batch_size": batch_size,
        "learning_rate": learning_rate,
        "logging_steps": 10,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": seed,
    }


@dataclass(frozen=True)
class TrialJobs:
    """The starts, or the arms, of a trial as jobs (`sudoku_dllm.trials.jobs.Comparison`)."""

    trial: Trial
    run_folder: Path
    quiet: bool = False

    def run(self, job: Job, folder: Path, *, resume: bool, training: Progress, judging: Progress) -> None:
        """Train and judge a job, and write its result; see `Comparison`."""
        trial, args = self.trial, self.trial.args
        set_seed(job.seed)
        spent: dict[str, Any] = {"updates": 0, "puzzles_seen": 0, "cpu_seconds": 0.0}
        if job.arm == START:
            model = trial.start(job.seed, folder)
        else:
            model = trial.load(Job(START, job.seed).folder(self.run_folder) / MODEL)
            spent = trained(trial, job, model, folder, training)
        if job.arm == START or trial.KEEPS_MODELS:
            model.save_pretrained(folder / MODEL)
        judging(0.0)
        figures, outcomes = trial.judge(model, job.seed, folder)
        about = {"arm": job.arm, "seed": job.seed, "machine": machine(), "settings": asdict(args)}
        write_job(folder, {**about, **spent, **figures}, outcomes)


def trained(trial: Trial, job: Job, model: nn.Module, folder: Path, training: Progress) -> dict[str, Any]:
    """Train an arm to its budget; what it spent."""
    args, began = trial.args, time.process_time()
    trainer = trial.trainer(job.arm, model, job.seed, folder)
    budget, shares = args.budget, {"warmup_share": args.warmup_share, "decay_share": args.decay_share}
    if budget.by == "cpu_seconds":
        budget = Budget(budget.by, max(budget.amount - (time.process_time() - began), 0.1))
    spent = train_job(trainer, budget, None, training, **shares)
    kept = {name: spent[name] for name in ("updates", "puzzles_seen")}
    return {**kept, "cpu_seconds": time.process_time() - began}


def run_trial(trial: type[Trial], arguments: type[TrialArguments], description: str) -> None:
    """The command of a trial: read its arguments, train the starts, then the arms, and print its table.

    Args:
        trial: Made of the arguments once they are read.
        arguments: Their class.
        description: What `--help` says of it.
    """
    (args,) = parse(arguments, description=description)
    chosen = chosen_arms(args.arms, trial.ARMS)
    need_reports()
    need_whole_run(args.resume_from_checkpoint)
    folder = RunFolder(args)
    quiet_libraries()
    run, resume = folder.open(asdict(args)), args.resume_from_checkpoint is not None
    if resume:
        check_same(run, asdict(args))
    made = trial(args)
    starts = [Job(START, seed) for seed in args.seeds]
    arms = [Job(arm, seed) for seed in args.seeds for arm in chosen]
    processes = default_processes(use_cpu=True) if args.jobs is None else args.jobs

    def told(left: list[Job]) -> str:
        amount = f"{args.max_steps:,} updates" if args.max_steps else f"{args.cpu_seconds:g} CPU seconds"
        each = f", {amount} each" if any(job.arm != START for job in left) else ""
        return f"{len(left)} trainings{each}, {max(processes, 1)} at a time."

    jobs = TrialJobs(made, run)
    carry_out(jobs, run, starts, processes, resume=resume, plan=told, report=lambda: None)
    carry_out(jobs, run, arms, processes, resume=resume, plan=told, report=lambda: print(report(run, trial)))
