"""The arms of a study as jobs that run side by side (`sudoku_dllm.trials.jobs.Comparison`)."""

from dataclasses import dataclass
from pathlib import Path

from scripts.study.arm import ArmRun
from scripts.study.config import BASE, Regime
from sudoku_dllm.machine import machine
from sudoku_dllm.trials import Records, job_name
from sudoku_dllm.trials.jobs import Job, Progress


@dataclass(frozen=True)
class StudyJobs:
    """Jobs whose arms are named REGIME/ARM.

    Attributes:
        regimes: The regimes by name.
        runs: Folder of the study's runs.
        quiet: Whether no bars are printed.
    """

    regimes: dict[str, Regime]
    runs: Path
    quiet: bool = True

    def lender(self, job: Job) -> Job | None:
        """The job whose cost is this one's budget, if it has none of its own."""
        name, _, arm = job.arm.rpartition("/")
        source = None if arm == BASE else self.regimes[name].arms[arm].budget.same_as
        return None if source is None else Job(f"{name}/{source}", job.seed)

    def run(self, job: Job, folder: Path, *, resume: bool, training: Progress, judging: Progress) -> None:
        """Train an arm with a seed, decode and write the result; see `Comparison`."""
        name, _, arm = job.arm.rpartition("/")
        regime, budget = self.regimes[name], None
        if arm != BASE:
            lender = self.lender(job)
            cost = None if lender is None else Records(self.runs).result(job_name(lender.arm, seed=lender.seed))
            budget = regime.arms[arm].budget.resolve(cost)
        ArmRun(regime, arm, job.seed, folder).run(budget, machine=machine(), training=training)
