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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, PreTrainedModel, Trainer, set_seed

import dllm_rl  # noqa: F401  (registers LLaDA)
from llm_rl.core._options import option
from llm_rl.training.arguments import check_seed
from llm_rl.training.budget import UNLIMITED_STEPS, Budget, trapezoid
from llm_rl.training.command_line import parse
from llm_rl.training.processes import is_first
from llm_rl.training.storage import write_text_whole
from sudoku_dllm.machine import machine
from sudoku_dllm.trials.command import compare
from sudoku_dllm.trials.jobs import Job, Progress, default_processes
from sudoku_dllm.trials.record import Records, write_job
from sudoku_dllm.trials.training import MODEL, NOTHING_SPENT, passes_of, train_job
from sudoku_dllm.trials.trial_report import START, chosen_arms, table

Judgement = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]
"""What a model is worth: figures for its result, and outcomes by name, an entry for each held-out problem."""


@dataclass
class TrialArguments:
    """What every trial takes; one adds its own by inheriting.

    Attributes:
        TRIAL: The trial.
    """

    arms: list[str] | None = option(None, "Trainings to compare; all of them by default.")
    seeds: list[int] = option([0, 1, 2], "Random seeds of start and arms.")
    cpu_seconds: float = option(240.0, "What each arm may spend, in CPU seconds.")
    max_steps: int | None = option(None, "Updates of each arm in place of seconds; a seed then gives the same twice.")
    warmup_share: float = option(0.05, "Share of the budget in which the rate rises.")
    decay_share: float = option(0.3, "Share at its end in which the rate falls to 0.")
    jobs: int | None = option(None, "Trainings at a time, a process of one thread each; by default as many as cores.")
    output_dir: str = option("runs/trial", "Run folder.")
    overwrite_output_dir: bool = option(False, "Replace a run in the folder.")
    resume_from_checkpoint: str | None = option(None, "last: keep the results that are there, begin the others anew.")

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
        SPENT: What a result says of its cost.
        args: The arguments.
        quiet: Whether no bars are printed.
        progress: Takes the share of the decodes that are done, while a model is judged.
    """

    ARMS: ClassVar[Mapping[str, str]]
    CONTROL: ClassVar[str | None] = None
    FIGURES: ClassVar[Mapping[str, str]] = {}
    SPENT: ClassVar[tuple[str, ...]] = ("updates", "puzzles_seen", "cpu_seconds")
    quiet = False
    progress: Progress

    def __init__(self, args: Any) -> None:
        self.args = args

    @abstractmethod
    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """The model that all arms of a seed begin with, trained anew; its training may write to the folder."""

    def load(self, folder: Path) -> PreTrainedModel:
        """A start that was saved to a folder; by default a masked language model."""
        model: PreTrainedModel = AutoModelForMaskedLM.from_pretrained(folder)
        return model

    @abstractmethod
    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm, one of `ARMS`, which trains a copy of the start in place and writes to the folder.

        What making it takes (sampling pairs, say) is spent of the arm's budget.
        """

    @abstractmethod
    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """What a start or an arm's model is worth: the outcome "solved", where there is one, and `FIGURES`."""

    @property
    def processes(self) -> int:
        """How many jobs run at a time, a process of one thread each; 0: one after the other in this process."""
        jobs: int | None = self.args.jobs
        return default_processes(use_cpu=True) if jobs is None else jobs

    def rounds(self) -> list[list[Job]]:
        """All jobs, in rounds of which each begins when the one before has ended: the starts, then the arms."""
        arms, seeds = chosen_arms(self.args.arms, self.ARMS), self.args.seeds
        return [[Job(START, seed) for seed in seeds], [Job(arm, seed) for seed in seeds for arm in arms]]

    def stages(self, arm: str) -> list[tuple[str, Budget]]:
        """What an arm is trained as, one after the other, and what each may spend; nothing for a start."""
        return [] if arm == START else [(arm, self.args.budget)]

    def begin(self, job: Job, folder: Path) -> PreTrainedModel:
        """The model that a job begins with: the start of its seed, which is trained once and kept."""
        if job.arm != START:
            return self.load(Job(START, job.seed).folder(Path(self.args.output_dir)) / MODEL)
        model = self.start(job.seed, folder)
        model.save_pretrained(folder / MODEL)
        return model

    def trained(
        self, stage: Job, model: PreTrainedModel, folder: Path, budget: Budget, progress: Progress, resume: bool
    ) -> tuple[Trainer, dict[str, Any]]:
        """Train a model in place, by default anew; the trainer, and what was spent, making the trainer included."""
        # Making the trainer is paid from the budget too: sampling pairs, say, is what other arms spend on training.
        args, began = self.args, time.process_time()
        trainer = self.trainer(stage.arm, model, stage.seed, folder)
        if budget.by == "cpu_seconds":
            budget = Budget(budget.by, max(budget.amount - (time.process_time() - began), 0.1))
        shares = {"warmup_share": args.warmup_share, "decay_share": args.decay_share}
        spent = train_job(trainer, budget, None, progress, **shares)
        return trainer, {**spent, "cpu_seconds": time.process_time() - began}

    def keep(self, model: PreTrainedModel, folder: Path) -> None:  # noqa: B027  (a hook)
        """Write what is kept of an arm beside its result; by default nothing."""

    def about(self) -> dict[str, Any]:
        """What a result says of how it was made."""
        return {"settings": asdict(self.args)}

    def plan(self, jobs: list[Job], left: list[Job]) -> str:
        """What will happen, of a round's jobs and those that have no result yet."""
        args = self.args
        amount = f"{args.max_steps:,} updates" if args.max_steps else f"{args.cpu_seconds:g} CPU seconds"
        each = f", {amount} each" if any(job.arm != START for job in left) else ""
        return f"{len(left)} trainings{each}, {max(self.processes, 1)} at a time."

    def report(self, run: Path, jobs: list[Job]) -> None:
        """Print and write what came of all jobs, given those of the last round."""
        text = table(Records(run), type(self))
        write_text_whole(run / "table.md", text)
        print(f"\n{text}\nRun folder: {run}")

    def run(self, job: Job, folder: Path, *, resume: bool, training: Progress, judging: Progress) -> None:
        """Train and judge a job, and write its result, whole or not at all.

        Args:
            job: The job.
            folder: Where checkpoints, metrics, model and result go; it is there.
            resume: Whether to go on from the last checkpoint, if there is one.
            training: Called with the share of the budget that is spent.
            judging: Called with the share of the decodes that are done.
        """
        set_seed(job.seed)
        model, stages, trainer = self.begin(job, folder), self.stages(job.arm), None
        spent = {name: NOTHING_SPENT[name] for name in self.SPENT}
        for before, (stage, budget) in enumerate(stages):
            into = folder if stage == job.arm else folder / stage

            def share_of_all(share: float, before: int = before) -> None:
                training((before + share) / len(stages))

            trainer, more = self.trained(Job(stage, job.seed), model, into, budget, share_of_all, resume)
            spent = {name: value + more[name] for name, value in spent.items()}
        if stages and is_first():
            self.keep(model, folder)
        self.progress = judging
        judging(0.0)
        with passes_of(trainer):
            figures, outcomes = self.judge(model, job.seed, folder)
        if is_first():
            about = {"arm": job.arm, "seed": job.seed, "machine": machine(), **self.about()}
            write_job(folder, {**about, **spent, **figures}, outcomes)


def short_training(folder: Path, batch_size: int, seed: int, learning_rate: float) -> dict[str, Any]:
    """Arguments of a training on CPU that writes nothing but its log, into a folder, and ends by its budget."""
    return {
        "output_dir": str(folder / "trainer"), "overwrite_output_dir": True, "max_steps": UNLIMITED_STEPS,
        "per_device_train_batch_size": batch_size, "learning_rate": learning_rate, "logging_steps": 10,
        "save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True, "seed": seed,
    }  # fmt: skip


def run_trial(trial: type[Trial], arguments: type[TrialArguments], description: str) -> None:
    """The command of a trial: read its arguments, train the starts, then the arms, and print its table."""
    (args,) = parse(arguments, description=description)
    chosen_arms(args.arms, trial.ARMS)
    compare(lambda: trial(args), args, lambda: asdict(args))
