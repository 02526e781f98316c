"""One arm of a study with one seed: train to the budget, decode the test puzzles, write the result. And all as jobs."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl import (
    Decode,
    Evaluation,
    PuzzleBatch,
    SftArguments,
    SftDataset,
    SftTrainer,
    SudokuTask,
    UnmaskArguments,
    UnmaskTrainer,
    decode,
)
from dllm_rl.sudoku import assess
from llm_rl import MetricsWriter
from llm_rl.training import (
    UNLIMITED_STEPS,
    Budget,
    BudgetCallback,
    rows_after,
    train_to_budget,
    trapezoid,
    write_text_whole,
)
from scripts.study.config import BASE, EVERY_CELL, STANDARD_RULE, Arm, Decoding, Regime
from sudoku_dllm.held_out import check_held_out
from sudoku_dllm.machine import machine
from sudoku_dllm.models import record_sizes
from sudoku_dllm.placebo import PlaceboTask
from sudoku_dllm.run_page.replays import chosen, replay_in
from sudoku_dllm.trials import Records, job_name, write_job
from sudoku_dllm.trials.jobs import Job, Progress
from sudoku_dllm.trials.training import ShareSpent
from sudoku_env import PreFilled, pre_fill, random_order_floor, read_prompts
from sudoku_env.symmetries import symmetric_prompts

TEMPLATE = "compact"
METRICS, REPLAYS = "metrics.jsonl", "replays.json"
OUTCOME_FIELDS = {
    "solved": "solved",
    "forward_passes": "forward_passes",
    "greedy_definite": "greedy_definite_count",
    "greedy_cells": "greedy_judged",
}
"""Name in the study's files → column of `Evaluation`."""


def training_arguments(arm: Arm, folder: Path, seed: int) -> TrainingArguments:
    """The arguments of an arm's trainer, with what the study sets itself.

    Raises:
        ValueError: An argument has a value that its trainer refuses.
    """
    kind = UnmaskArguments if arm.kind == "unmask" else SftArguments
    own: dict[str, Any] = {
        "output_dir": str(folder),
        "seed": seed,
        "max_steps": UNLIMITED_STEPS,
        "lr_scheduler_type": "constant",
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
    }
    defaults = {"logging_steps": 10, "logging_nan_inf_filter": False}
    return kind(**{**defaults, **arm.arguments, **own})


def trained(
    model: nn.Module,
    problems: list[Any],
    task: Any,
    args: TrainingArguments,
    budget: Budget,
    shares: tuple[float, float],
    training: Progress,
    *callbacks: TrainerCallback,
    **validation: Any,
) -> tuple[Trainer, BudgetCallback]:
    """Train an arm to its budget.

    Args:
        model: The model, which is trained in place.
        problems: What it learns from.
        task: The task, whose label the arm's rule has chosen.
        args: Those of `training_arguments`.
        budget: What may be spent.
        shares: Shares of it in which the rate rises, and falls at the end.
        training: Called with the share that is spent.
        *callbacks: Further ones.
        **validation: As `BudgetCallback` takes it.

    Returns:
        The trainer, and the budget with what was spent.
    """
    trainer: Trainer
    if isinstance(args, UnmaskArguments):
        trainer = UnmaskTrainer(model, args, problems, task)
    else:
        trainer = SftTrainer(model=model, args=args, train_dataset=SftDataset(task.batch(problems)))
    trainer.remove_callback(PrinterCallback)
    callback = BudgetCallback(budget, rows_after(trainer), **validation)
    for one in (*callbacks, ShareSpent(callback, training)):
        trainer.add_callback(one)
    train_to_budget(trainer, callback, trapezoid(*shares))
    return trainer, callback


def decode_as(model: nn.Module, puzzles: PuzzleBatch, how: Decoding, *, seed: int) -> Decode:
    """Decode puzzles once in one way.

    Args:
        model: A model as `dllm_rl.policy.score_states` takes it.
        puzzles: The N puzzles to decode.
        how: How to decode.
        seed: Random seed of the strategies that draw.
    """
    return decode(model, puzzles, how.decoding(), generator=torch.Generator().manual_seed(seed))


class ArmRun:
    """One arm of a regime with one seed.

    Args:
        regime: The regime that the arm belongs to.
        arm: Name of the arm, or "base".
        seed: Random seed of training and of decoding.
        folder: Where `result.json`, `outcomes.npz`, metrics, ten decodes and the model go.

    Raises:
        ValueError: Grids of held-out puzzles occur in training.
        SudokuError: Images are asked for of prompts in other words than those of template "compact".
    """

    def __init__(self, regime: Regime, arm: str, seed: int, folder: Path) -> None:
        self.regime, self.arm, self.seed, self.folder = regime, arm, seed, folder
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(regime.base)
        self.train = self._load(regime.train, regime.train_puzzles, regime.train_images)
        self.validation = self._load(regime.validation, regime.validation_puzzles)
        self.tests = {"test": self._load(regime.test, regime.test_puzzles)}
        if regime.hard_test is not None:
            self.tests["hard_test"] = self._load(regime.hard_test, regime.test_puzzles)
        check_held_out(self.train, {"validation": self.validation, **self.tests})

    def _load(self, path: str, count: int, images: int = 1) -> list[PreFilled]:
        prompts = read_prompts(path)[: count or None]
        if images > 1:
            options: dict[str, Any] = {"symmetries": self.regime.train_symmetries, "seed": self.seed}
            prompts = symmetric_prompts(prompts, images, template=TEMPLATE, **options)
        return [pre_fill(prompt, self.tokenizer, self.regime.max_gen_length) for prompt in prompts]

    def _task(self, rule: str = STANDARD_RULE) -> SudokuTask:
        pad_id, tail_id = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        return PlaceboTask(pad_id, tail_id) if rule == EVERY_CELL else SudokuTask(pad_id, tail_id, rule=rule)

    def run(self, budget: Budget | None, training: Progress = lambda share: None) -> None:
        """Train unless the arm is the base, decode and write the result.

        Args:
            budget: What training may spend; None for the base.
            training: Called with the share of the budget that is spent.

        Raises:
            ValueError: An arm that trains has no budget, or the base has one.
        """
        if (budget is None) != (self.arm == BASE):
            raise ValueError(f"arm {self.arm!r} with budget {budget}: the base has none, all other arms need one")
        self.folder.mkdir(parents=True, exist_ok=True)
        model: PreTrainedModel = AutoModelForMaskedLM.from_pretrained(self.regime.base).float()
        spent: dict[str, Any] = {"cpu_seconds": 0.0, "updates": 0, "puzzles_seen": 0}
        if budget is not None:
            spent = self._train(model, budget, training)
        summaries: dict[str, dict[str, Any]] = {}
        outcomes: dict[str, Any] = {}
        for name, puzzles in self.tests.items():
            batch = self._task().batch(puzzles)
            floor = random_order_floor(batch.boards(batch.responses), batch.boards(batch.answers), seed=0)
            summaries[name] = {"puzzles": len(puzzles), "greedy_definite_floor": floor, "decodings": {}}
            for how in self.regime.decodings(self.arm):
                record = decode_as(model, batch, how, seed=self.seed)
                found = assess(record, seed=self.seed)
                if not outcomes:  # the decoding and the puzzles that come first
                    rows = chosen(found.evaluation.solved.tolist())
                    replays = [asdict(replay_in(batch, record, row, f"{self.arm}, {how.label}")) for row in rows]
                    write_text_whole(self.folder / REPLAYS, json.dumps(replays))
                summaries[name]["decodings"][how.label] = found.summary()
                for field, column in OUTCOME_FIELDS.items():
                    outcomes[f"{name}/{how.label}/{field}"] = getattr(found.evaluation, column)
        result = {
            "arm": self.arm,
            "seed": self.seed,
            "machine": machine(),
            "settings": self.regime.settings(self.arm),
            "budget": None if budget is None else {"by": budget.by, "amount": budget.amount},
            **spent,
            "sets": summaries,
        }
        write_job(self.folder, result, outcomes)

    def _train(self, model: PreTrainedModel, budget: Budget, training: Progress) -> dict[str, Any]:
        """Train to the budget; what was spent and how it went."""
        set_seed(self.seed)
        arm = self.regime.arms[self.arm]
        shares = self.regime.warmup_share, self.regime.decay_share
        validate = self._validate if self.regime.select == "validation" else None
        trainer, callback = trained(
            model, self.train, self._task(arm.rule), training_arguments(arm, self.folder, self.seed), budget, shares,
            training, MetricsWriter(self.folder / METRICS), validate=validate, validate_share=self.regime.eval_share,
        )  # fmt: skip
        if self.regime.save:
            record_sizes(trainer.model, (puzzle.layout.size for puzzle in self.train))
            trainer.save_model(str(self.folder / "model"))
            self.tokenizer.save_pretrained(self.folder / "model")
        logged = trainer.state.log_history
        ratios = [line["distinct_states"] for line in logged if "distinct_states" in line]
        return {
            "cpu_seconds": callback.cpu_seconds,
            "updates": trainer.state.global_step,
            "puzzles_seen": callback.puzzles_after(trainer.state.global_step),
            "distinct_states": float(np.mean(ratios)) if ratios else None,
            "validations": callback.validations,
            "last_metrics": logged[-1],
        }

    def _validate(self, model: nn.Module) -> float:
        record = decode_as(model, self._task().batch(self.validation), self.regime.evaluation[0], seed=self.seed)
        return float(Evaluation.of(record).solved.mean())


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
        ArmRun(regime, arm, job.seed, folder).run(budget, training)
