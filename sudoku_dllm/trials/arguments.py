"""Arguments that all comparisons of trainings have: which arms and seeds, what each may spend, how they are run."""

import math
from argparse import SUPPRESS
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

import torch

from dllm_rl.models.shipped import model_folder
from dllm_rl.training.arguments import UnmaskArguments
from llm_rl.core._checks import check_count
from llm_rl.core._options import option
from llm_rl.training.arguments import check_seed, refuse_idle
from llm_rl.training.budget import trapezoid
from sudoku_dllm.trials.rates import chosen_rates

BASE, SOURCE = "base", "source"
"""The arm that is not trained, and that of the objective of docs/sources.md (`trials.training.source_arguments`)."""
REST = ("transformers", "llm_rl", "dllm_rl")
"""Packages whose options, but for those that a class here has too, `--help_all` alone prints."""


@dataclass
class ComparisonArguments:
    """What is compared, and what each arm may spend; a comparison names its arms and their learning rates.

    Attributes:
        ALL_ARMS: The arms that it knows.
        RATES: The learning rates chosen for its arms, but for those that have `learning_rate`.
        DEALT: The arms that several processes may train together.
        LISTS: Its options that name at least one thing, and none twice.
    """

    ALL_ARMS: ClassVar[tuple[str, ...]] = ()
    RATES: ClassVar[Mapping[str, float]] = {}
    DEALT: ClassVar[tuple[str, ...]] = ()
    LISTS: ClassVar[tuple[str, ...]] = ("arms", "eval_tokens")

    model: str = option("", "A shipped model, or the folder of a model and its tokenizer.")
    arms: list[str] = option([], "Trainings to compare.")
    seeds: list[int] = option([], "Seeds of training; none is --seed alone.")
    eval_tokens: list[int] = option([1, 2, 4], "Tokens a step in decoding the held-out puzzles.")
    train_seconds: float | None = option(
        None,
        "CPU seconds (on an accelerator, seconds) that each arm trains for; None: max_steps, with which a "
        "seed gives the same figures twice.",
    )
    warmup_share: float = option(0.05, "Share of an arm's budget in which the rate rises.")
    decay_share: float = option(0.4, "Share at its end in which the rate falls to 0.")
    jobs: int | None = option(
        None,
        "Arms at a time, a process of one thread each; 0: one after the other in this process, with all "
        "threads or the accelerator. By default as many as cores, on an accelerator 0.",
    )
    rates: list[str] = option([], "Learning rates of arms, ARM=RATE each.")
    control_batch_size: int = option(128, "Puzzles in a batch of supervised training.")

    def __post_init__(self) -> None:
        self.model = model_folder(self.model)
        for name in (*self.LISTS, "seeds"):
            values = getattr(self, name)
            if len(set(values)) < len(values) or not (values or name == "seeds"):
                raise ValueError(f"{name}={values} must name at least one, and none twice")
        if unknown := [arm for arm in self.arms if arm not in self.ALL_ARMS]:
            raise ValueError(f"arms={unknown} are unknown; use some of {', '.join(self.ALL_ARMS)}")
        check_count("eval_tokens", min(self.eval_tokens))
        if self.train_seconds is not None and not 0 < self.train_seconds < math.inf:
            raise ValueError(f"train_seconds={self.train_seconds} must be positive and finite, or None for max_steps")
        chosen_rates(self.RATES, self.rates)
        for seed in self.seeds:
            check_seed("seeds", seed)
        if self.jobs is not None and self.jobs < 0:
            raise ValueError(f"jobs={self.jobs} must be 0, which is this process, or larger")
        check_count("control_batch_size", self.control_batch_size)
        trapezoid(self.warmup_share, self.decay_share)

    def rate(self, arm: str) -> float:
        """The learning rate of one of the arms of `RATES`."""
        return chosen_rates(self.RATES, self.rates)[arm]


@dataclass
class BudgetedArguments(UnmaskArguments):
    """Arguments of `UnmaskTrainer` where a budget ends the training and its share gives the rate."""

    output_dir: str = option(str(Path("runs") / "train_sudoku"), "Run folder.")
    lr_scheduler_type: str = option("constant", SUPPRESS)  # the budget sets it
    logging_steps: float = option(10, "Steps between two lines of metrics.")
    save_steps: float = option(100, "Steps between two checkpoints.")
    save_total_limit: int | None = option(1, "Checkpoints to keep.")
    report_to: str | None = option("tensorboard", "Where else to report.")
    use_cpu: bool = option(None, "Do not use an accelerator.")
    resume_from_checkpoint: str | None = option(None, "last: go on where the run in output_dir was stopped.")
    overwrite_output_dir: bool = option(False, "Start anew in a folder that holds a run; its checkpoints are deleted.")
    resume_with_changes: bool = option(False, SUPPRESS)

    def __post_init__(self) -> None:
        # Those that are not as by default; `parse` adds those that were given.
        self.told = {item.name for item in fields(self) if item.init and getattr(self, item.name) != item.default}
        if self.use_cpu is None:  # asked here: at import, no fork of the process that imported could use the card
            self.use_cpu = not torch.cuda.is_available()
        super().__post_init__()
        refuse_idle(self, [("resume_with_changes", False, "in a comparison, one for all arms: take a new output_dir")])
        check_count("max_steps", self.max_steps)
        if self.lr_scheduler_type != "constant" or self.warmup_steps:
            raise ValueError(
                f"lr_scheduler_type={str(self.lr_scheduler_type)!r} and warmup_steps={self.warmup_steps}: the rate "
                "follows the budget of an arm; set warmup_share and decay_share"
            )

    def _idle(self) -> list[tuple[str, object, str]]:
        # The arm "source" has both terms, whatever weights the recipe has: `RecipeTrial` looks at the two rates.
        return [idle for idle in super()._idle() if not idle[0].endswith("learning_rate")]
