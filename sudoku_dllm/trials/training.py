"""An arm: its model and arguments, and its training to a budget, with metrics, progress and, on the way, a curve."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from torch import nn
from transformers import PreTrainedModel, PrinterCallback, ProgressCallback, Trainer, TrainerCallback, set_seed

from dllm_rl.models.shipped import load
from dllm_rl.sft import SftArguments, SftDataset, SftTrainer
from dllm_rl.task import Learned, UnmaskBatch
from dllm_rl.terms.cross_entropy import CrossEntropyConfig
from dllm_rl.terms.judged_decisions import JudgedDecisionsConfig
from dllm_rl.training.arguments import UnmaskArguments
from llm_rl.training.arguments import RunArguments
from llm_rl.training.budget import UNLIMITED_STEPS, Budget, BudgetCallback, rows_after, train_to_budget, trapezoid
from llm_rl.training.buffered import BufferedTrainer
from llm_rl.training.callbacks import MetricsWriter, write_json_lines
from llm_rl.training.output_folder import LAST
from llm_rl.training.processes import is_first
from sudoku_dllm.models import record_sizes
from sudoku_dllm.trials.arguments import BudgetedArguments, ComparisonArguments
from sudoku_dllm.trials.jobs import Progress

Recipe = TypeVar("Recipe", bound=BudgetedArguments)

METRICS, CURVE, MODEL = "metrics.jsonl", "curve.jsonl", "model"
NOTHING_SPENT: dict[str, Any] = {"updates": 0, "puzzles_seen": 0, "cpu_seconds": 0.0, "seconds": 0.0}


def new_model(script: ComparisonArguments, args: BudgetedArguments, seed: int, **options: Any) -> PreTrainedModel:
    """A fresh copy of the base model, by `load`, with adapters that do nothing yet if LoRA is asked for."""
    set_seed(seed)
    return args.adapted(load(script.model, **options).model.to(args.device))


def arm_arguments(args: Recipe, seed: int, folder: Path, rate: float | None = None) -> Recipe:
    """The recipe of one arm, whose budget ends it, with its learning rate in place of all that the recipe has."""
    args = copy(args)
    args.seed, args.output_dir, args.max_steps = seed, str(folder), UNLIMITED_STEPS
    args.resume_from_checkpoint, args.overwrite_output_dir = None, False
    if rate is not None:
        args.learning_rate, args.rl_learning_rate, args.sft_learning_rate = rate, None, None
    return args


def source_arguments(args: BudgetedArguments, seed: int, folder: Path, rate: float) -> UnmaskArguments:
    """The arguments of the arm "source": the library's defaults, which are docs/sources.md's, unless others were told.

    What is of other terms than its two is not told to it. A roll-out has as many trajectories as the recipe has
    problems, unless their number was told. The rate is for terms without one.

    Raises:
        ValueError: Those that were told do not go together.
    """
    others = {item.name for kind in (CrossEntropyConfig, JudgedDecisionsConfig) for item in fields(kind)}
    kept = args.told - others - {"num_mini_batches"} | {item.name for item in fields(RunArguments)}
    mine = arm_arguments(args, seed, folder, rate)
    mine.rl_learning_rate, mine.sft_learning_rate = args.rl_learning_rate, args.sft_learning_rate
    names = {item.name for item in fields(UnmaskArguments) if item.init} & kept
    found = UnmaskArguments(**{name: getattr(mine, name) for name in names})
    if "per_device_train_batch_size" not in args.told:
        found.per_device_train_batch_size = max(1, args.per_device_train_batch_size // found.num_generations)
    return found


def sft_trainer(
    setting: Any, arm: str, seed: int, folder: Path, model: nn.Module, problems: UnmaskBatch, ce_on: Learned = "masked"
) -> SftTrainer:
    """SFT on problems and their answers; all arguments that any run has are the recipe's, but for rate and batch."""
    args = arm_arguments(setting.args, seed, folder, setting.script.rate(arm))
    shared = {item.name: getattr(args, item.name) for item in fields(RunArguments) if item.init}
    size = setting.script.control_batch_size
    arguments = SftArguments(**{**shared, "per_device_train_batch_size": size}, ce_on=ce_on)
    return SftTrainer(model=model, args=arguments, train_dataset=SftDataset(problems.to("cpu")))


def passes_of(trainer: Trainer | None) -> AbstractContextManager[None]:
    """A section in which the processes of a trainer decode with its model, all the same puzzles."""
    return trainer.together() if isinstance(trainer, BufferedTrainer) else nullcontext()


class ShareSpent(TrainerCallback):
    """Tells how much of the budget is spent after each update."""

    def __init__(self, callback: BudgetCallback, progress: Progress) -> None:
        self.callback, self.progress = callback, progress

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Pass it on."""
        self.progress(min(1.0, self.callback.share(state.global_step)))


def train_job(
    trainer: Trainer,
    budget: Budget,
    folder: Path | None,
    progress: Progress,
    *,
    warmup_share: float,
    decay_share: float,
    sizes: set[int] | None = None,
    resume: bool = False,
    validate: Callable[[nn.Module], float] | None = None,
    curve_points: int = 0,
) -> dict[str, Any]:
    """Train to a budget, and write metrics, the curve and the model to a folder.

    Args:
        trainer: A trainer that has not trained yet.
        budget: What it may spend.
        folder: The job's folder; None writes nothing.
        progress: Called with the share of the budget that is spent.
        warmup_share: Share of the budget in which the rate rises.
        decay_share: Share at its end in which the rate falls to 0.
        sizes: Sizes of the boards, for the model's configuration.
        resume: Whether to go on from the last checkpoint, if there is one.
        validate: What the curve shows of a model.
        curve_points: Points of the curve; 0 is no curve.

    Returns:
        What was spent: `updates`, `puzzles_seen`, `cpu_seconds`, `seconds`.
    """
    for shown in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(shown)
    scored, apart = validate if curve_points else None, 1 / max(1, curve_points)
    callback = BudgetCallback(budget, rows_after(trainer), validate=scored, validate_share=apart)
    if folder is not None:
        trainer.add_callback(MetricsWriter(folder / METRICS))
    trainer.add_callback(ShareSpent(callback, progress))
    # The rate goes by the share spent, not by steps, so that it has fallen to 0 when the budget is spent.
    schedule = trapezoid(warmup_share, decay_share)
    train_to_budget(trainer, callback, schedule, resume_from_checkpoint=LAST if resume else None)
    if folder is not None:
        record_sizes(trainer.model, sizes or ())
        trainer.save_model(str(folder / MODEL))
        if curve_points and is_first():
            points = [{"share": share, "solved": score} for share, score in callback.validations]
            write_json_lines(folder / CURVE, points)
    updates = trainer.state.global_step
    return {
        "updates": updates,
        "puzzles_seen": callback.puzzles_after(updates),
        "cpu_seconds": callback.cpu_seconds,
        "seconds": callback.seconds,
    }
