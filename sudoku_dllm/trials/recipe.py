"""Arms from a saved model, each by one recipe: what the comparisons of `sudoku-dllm train` have in common."""

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import torch
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedModel, Trainer

from dllm_rl.models.folder import check_folder, named_model
from dllm_rl.models.shipped import model_folder, unknown
from dllm_rl.training.arguments import UnmaskArguments
from llm_rl.training.arguments import RunArguments, refuse_idle
from llm_rl.training.budget import Budget
from llm_rl.training.command_line import fail, need_model, on_command_line
from llm_rl.training.processes import is_first
from sudoku_dllm.trials.arguments import BASE, SOURCE, BudgetedArguments, ComparisonArguments
from sudoku_dllm.trials.command import compare
from sudoku_dllm.trials.jobs import Job, Progress, default_processes
from sudoku_dllm.trials.training import MODEL, new_model, source_arguments, train_job
from sudoku_dllm.trials.trial import Trial

UNITS = {"steps": "updates", "cpu_seconds": "CPU seconds", "seconds": "seconds"}
"""What a budget counts, in words."""


class RecipeTrial(Trial):
    """The arms of a setting (base, puzzles, arguments); those that were stopped go on from their last checkpoints.

    Attributes:
        UPDATES: Updates that cost each arm as much.
        SECONDS: CPU seconds that they cost, about.
        REFERENCE: The arm that the recipe, whose `max_steps` are its updates, is of.
        STAGES: The stages of arms that have several.
        parameters: Of the base.
    """

    UPDATES: ClassVar[Mapping[str, int]]
    SECONDS: ClassVar[float]
    REFERENCE: ClassVar[str]
    STAGES: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    SPENT: ClassVar[tuple[str, ...]] = (*Trial.SPENT, "seconds")

    def __init__(self, setting: Any) -> None:
        super().__init__(setting.args)
        self.setting, self.script, self.quiet = setting, setting.script, setting.args.disable_tqdm
        if SOURCE in self.script.arms:
            source_arguments(self.args, self.seeds[0], Path(self.args.output_dir), self.script.rate(SOURCE))
        else:
            refuse_idle(self.args, UnmaskArguments._idle(self.args))
        if self.args.resume_from_checkpoint is None:  # a run goes on with some of its arms and the options of all
            self._refuse_idle()
        with torch.device("meta"), named_model(self.script.model, "model"):  # sizes without weights
            shape = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(self.script.model))
        self.parameters = shape.num_parameters()

    def _refuse_idle(self) -> None:
        """Words of the command line that act in other arms than those asked for; a file may be for all of them."""
        script, arms = self.script, ", ".join(self.script.arms)
        parts = {part for arm in script.arms for part in self.STAGES.get(arm, (arm,))}
        labeled = {part for part in parts if part.startswith("sft")}
        of_roll_outs = {item.name for item in fields(UnmaskArguments)} - {item.name for item in fields(RunArguments)}
        for names, acts, remedy in (
            (of_roll_outs | {"per_device_train_batch_size"}, parts - labeled, f"in {arms}: add an arm by roll-outs"),
            (["control_batch_size"], labeled, f"in {arms}: set per_device_train_batch_size"),
            (["learning_rate"], parts - {*script.RATES}, f"in {arms}: give --rates {script.arms[0]}=RATE"),
            (["seed"], not script.seeds, "beside --seeds: name it there"),
        ):
            if not acts and (told := [name for name in sorted(names) if on_command_line(name) and "lora" not in name]):
                raise ValueError(f"--{told[0]} does nothing {remedy}, or leave it out")

    @property
    def processes(self) -> int:
        """As many as cores, one on an accelerator, unless `jobs` says otherwise."""
        if self.script.jobs is None and self.args.world_size == 1:
            return default_processes(self.args.use_cpu)
        return self.script.jobs or 0

    @property
    def seeds(self) -> list[int]:
        """Seeds of training."""
        return self.script.seeds or [self.args.seed]

    def rounds(self) -> list[list[Job]]:
        """The base, once, and the arms."""
        arms = [Job(arm, seed) for seed in self.seeds for arm in self.script.arms]
        return [[Job(BASE, self.seeds[0]), *arms]]

    def stages(self, arm: str) -> list[tuple[str, Budget]]:
        """Updates unless `train_seconds` is given; of several stages each has its part of what it has alone."""
        of, seconds = self.STAGES.get(arm, (arm,)) if arm != BASE else (), self.script.train_seconds
        if seconds is not None:
            return [(each, Budget("cpu_seconds" if self.args.use_cpu else "seconds", seconds / len(of))) for each in of]
        updates = {each: round(self.args.max_steps * self.UPDATES[each] / self.UPDATES[self.REFERENCE]) for each in of}
        return [(each, Budget("steps", max(1, count) / len(of))) for each, count in updates.items()]

    def trainings(self, jobs: Sequence[Job], titles: Mapping[str, str]) -> list[str]:
        """Lines of the plan: the base, and what each arm may spend."""
        name, width = self.script.model.rsplit("/", 1)[-1], max(map(len, titles))
        lines = [f"{titles[BASE].capitalize()}: {name}, {self.parameters:,} parameters. From it are trained:"]
        for arm in dict.fromkeys(job.arm for job in jobs):
            if budgets := [budget for _, budget in self.stages(arm)]:
                amount = sum(budget.amount for budget in budgets)
                lines.append(f"  {arm:{width}} {amount:6,g} {UNITS[budgets[0].by]}  {titles[arm]}")
        return lines

    def minutes(self, jobs: Sequence[Job], judging: float) -> list[str]:
        """A line of the plan: how long jobs take, each of which is judged in so many CPU seconds.

        There is none on an accelerator, and where updates of another base are counted.
        """
        script, seconds, at_a_time = self.script, self.script.train_seconds, max(self.processes, 1)
        if seconds is None and script.model == model_folder(type(script).model):
            seconds = self.SECONDS * self.args.max_steps / self.UPDATES[self.REFERENCE]
        if not jobs or seconds is None or not self.args.use_cpu:
            return []
        found = math.ceil(sum(judging + seconds * (job.arm != BASE) for job in jobs) / at_a_time / 60)
        return [f"{at_a_time} at a time: about {found} minute{'s' * (found > 1)} on cores that do nothing else."]

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """The base."""
        return new_model(self.script, self.args, seed)

    def begin(self, job: Job, folder: Path) -> PreTrainedModel:
        """The base, which is not trained."""
        return self.start(job.seed, folder)

    def trained(
        self, stage: Job, model: PreTrainedModel, folder: Path, budget: Budget, progress: Progress, resume: bool
    ) -> tuple[Trainer, dict[str, Any]]:
        """Train, or go on, with metrics, a curve and the model in the folder."""
        script, trainer = self.script, self.trainer(stage.arm, model, stage.seed, folder)
        shares = {"warmup_share": script.warmup_share, "decay_share": script.decay_share}
        options = {"sizes": self.setting.sizes, "resume": resume, **shares, **self.curve(trainer)}
        return trainer, train_job(trainer, budget, folder, progress, **options)

    def curve(self, trainer: Trainer) -> dict[str, Any]:
        """How `train_job` draws a curve; by default there is none."""
        return {}

    def keep(self, model: PreTrainedModel, folder: Path) -> None:
        """The tokenizer, beside the model."""
        self.setting.tokenizer.save_pretrained(folder / MODEL)

    def about(self) -> dict[str, Any]:
        """Nothing but what `arguments.json` says."""
        return {}


def compare_recipes(
    trial: type[RecipeTrial],
    load: Callable[[], Any],
    script: ComparisonArguments,
    args: BudgetedArguments,
    inputs: Sequence[str] = (),
) -> None:
    """The command of a setting: look at what its arguments name, then train, judge and report.

    What `load` reads, from the model and the `inputs`, is the trial's setting.
    """
    if script.model == type(script).model and (problem := unknown(script.model)):
        fail(problem)
    need_model("model", script.model)
    if args.world_size > 1:
        prepare_processes(script, args)

    def read() -> RecipeTrial:
        if Path(script.model).is_dir():
            check_folder(Path(script.model))
        return trial(load())

    compare(read, args, lambda: {**vars(script), **args.to_sanitized_dict()}, [script.model, *inputs])


def prepare_processes(script: ComparisonArguments, args: BudgetedArguments) -> None:
    """Let several processes train each arm together, of which the first alone speaks and writes.

    Ends the program if they cannot.
    """
    if alone := [arm for arm in script.arms if arm not in script.DEALT]:
        fail(f"--arms {alone[0]} is trained in one process; with {args.world_size} give some of {list(script.DEALT)}")
    if script.train_seconds is not None:
        fail(f"--train_seconds ends at another update in each of {args.world_size} processes; give --max_steps")
    if script.jobs:
        fail(f"--jobs {script.jobs} starts processes of its own; with {args.world_size} leave it out")
    if not is_first():
        args.disable_tqdm = True
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
