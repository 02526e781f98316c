"""One arm of the comparison with one seed: train to the budget, decode the held-out puzzles, write the result."""

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import Trainer

import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl.decoding import Decoding, Evaluation, decode, evaluate
from dllm_rl.sft import SftDataset, SftTrainer
from dllm_rl.task import Learned
from dllm_rl.training.trainer import UnmaskTrainer
from llm_rl.training.budget import Budget
from llm_rl.training.buffered import BufferedTrainer
from llm_rl.training.processes import is_first
from llm_rl.training.storage import save_arrays, write_text_whole
from sudoku_dllm.labels.arguments import UPDATES
from sudoku_dllm.labels.data import Setting
from sudoku_dllm.machine import machine
from sudoku_dllm.trials.jobs import Job, Progress
from sudoku_dllm.trials.record import OUTCOMES, RESULT
from sudoku_dllm.trials.training import (
    MODEL,
    NOTHING_SPENT,
    arm_arguments,
    budget_in,
    new_model,
    sft_arguments,
    train_job,
)
from sudoku_env.envs.rendering import decode_gif

GIF = "decode.gif"


def new_trainer(setting: Setting, arm: str, seed: int, folder: Path) -> Trainer:
    """The trainer of an arm; what the arms are is said here alone.

    - "objective": the recipe. "placebo": the same with every cell counted as definite. "ce": the recipe's roll-outs,
      but of the loss only the masked cross-entropy, at all open positions.
    - "sft": masked-diffusion fine-tuning on the solved puzzles. "sft_definite": the same with a loss on cells alone
      that are definite where the mask falls.

    What the loss counts decides which rate is best: where it is cells that can be learned by heart alone, a lower one.
    """
    script = setting.script
    model = new_model(script, setting.args, seed, dtype=script.dtype)
    if arm in ("sft", "sft_definite"):
        data = SftDataset(setting.task().batch(setting.train))
        ce_on: Learned = "definite" if arm == "sft_definite" else "masked"
        sft = sft_arguments(script, setting.args, arm, seed, folder, ce_on)
        return SftTrainer(model=model, args=sft, train_dataset=data)
    args = arm_arguments(setting.args, seed, folder, script.rate(arm) if arm in ("ce", "placebo") else None)
    if arm == "ce":
        args.policy_weight, args.f_weight, args.ce_on = 0.0, 0.0, "masked"
    return UnmaskTrainer(model, args, setting.train, setting.task(placebo=arm == "placebo"))


def budget_of(setting: Setting, arm: str) -> Budget | None:
    """What an arm may spend; None for the base."""
    return budget_in(setting.script, setting.args, arm, UPDATES, "objective")


def train_arm(
    setting: Setting, arm: str, seed: int, folder: Path, budget: Budget, progress: Progress, *, resume: bool
) -> tuple[Trainer, dict[str, Any]]:
    """Train an arm; its trainer, and what was spent."""
    script = setting.script
    trainer = new_trainer(setting, arm, seed, folder)

    def validate(model: nn.Module) -> float:
        with passes_of(trainer):
            return solved(model, setting)

    spent = train_job(
        trainer,
        budget,
        folder,
        progress,
        sizes={puzzle.layout.size for puzzle in setting.train},
        warmup_share=script.warmup_share,
        decay_share=script.decay_share,
        resume=resume,
        validate=validate,
        curve_points=script.curve_points,
    )
    if is_first():
        setting.tokenizer.save_pretrained(folder / MODEL)
    return trainer, spent


def passes_of(trainer: Trainer | None) -> AbstractContextManager[None]:
    """A section in which the processes of a trainer decode with its model, all the same puzzles."""
    return trainer.together() if isinstance(trainer, BufferedTrainer) else nullcontext()


def solved(model: nn.Module, setting: Setting) -> float:
    """The share of the curve's puzzles that a model solves by the first strategy, one token a step."""
    how = Decoding(setting.script.strategies[0], on_error="end")
    result = evaluate(model, setting.curve, setting.judged_as, how, device=setting.args.device)
    return float(result.solved.mean())


def judge(model: nn.Module, setting: Setting, seed: int, progress: Progress) -> dict[tuple[str, str, int], Evaluation]:
    """Decode every held-out set by every strategy and number of tokens a step."""
    script = setting.script
    policy = setting.args.policy_config(1.0)
    ways = [(name, strategy, k) for name in setting.tests for strategy in script.strategies for k in script.eval_tokens]
    found = {}
    for number, (name, strategy, k) in enumerate(ways):
        progress(number / len(ways))
        how = Decoding(strategy, tokens_per_step=k, policy=policy, on_error="end")
        tests = setting.tests[name]
        found[name, strategy, k] = evaluate(model, tests, setting.judged_as, how, seed=seed, device=setting.args.device)
    return found


@dataclass(frozen=True, eq=False)
class Arms:
    """The arms as jobs that run side by side.

    Attributes:
        setting: Base, puzzles and arguments.
    """

    setting: Setting

    @property
    def quiet(self) -> bool:
        """Whether no bars are printed."""
        return self.setting.args.disable_tqdm

    def run(self, job: Job, folder: Path, *, resume: bool, training: Progress, judging: Progress) -> None:
        """Train unless it is the base, decode the held-out puzzles, and write the result; see `Comparison`."""
        setting, spent = self.setting, NOTHING_SPENT
        trainer: Trainer | None = None
        if (budget := budget_of(setting, job.arm)) is None:
            model: Any = new_model(setting.script, setting.args, job.seed, dtype=setting.script.dtype)
        else:
            trainer, spent = train_arm(setting, job.arm, job.seed, folder, budget, training, resume=resume)
            model = trainer.model
        with passes_of(trainer):
            evaluations = judge(model, setting, job.seed, judging)
            replay = one_decode(model, setting, evaluations)
        if not is_first():
            return
        write_evaluations(folder, evaluations)
        decode_gif(folder / GIF, *replay)
        result = {"arm": job.arm, "seed": job.seed, "machine": machine(), **spent}
        write_text_whole(folder / RESULT, json.dumps(result, indent=2))


def one_decode(
    model: nn.Module, setting: Setting, evaluations: dict[tuple[str, str, int], Evaluation]
) -> tuple[Any, Any]:
    """The boards of a decode, one token a step, and the solution.

    It is that of the first held-out puzzle that is solved, of the first one if none is.
    """
    (name, strategy, _), found = next(iter(evaluations.items()))
    batch = setting.judged_as.batch([setting.tests[name][int(np.argmax(found.solved))]]).to(setting.args.device)
    how = Decoding(strategy, policy=setting.args.policy_config(1.0), on_error="end")
    generator = torch.Generator(device=setting.args.device).manual_seed(0)
    record = decode(model, batch, how, generator=generator)
    return batch.boards(record.states_of(0)), batch.layout.solution


def write_evaluations(folder: Path, evaluations: dict[tuple[str, str, int], Evaluation]) -> None:
    """Write evaluations by set, strategy and tokens a step, whole or not at all."""
    columns = {
        f"{name}/{how}/{k}/{item.name}": getattr(each, item.name)
        for (name, how, k), each in evaluations.items()
        for item in fields(Evaluation)
    }
    save_arrays(folder / OUTCOMES, columns)
