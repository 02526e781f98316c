"""What a base may be trained with further, at equal CPU time: the arms that `scripts.sudoku.taking_back` compares.

- `sft`: masked-diffusion SFT, the control.
- `corrupted`: SFT on states in which single tokens are the model's own mistakes (`dllm_rl.corruption`).
- `own_states`: cross-entropy at the states of its own roll-outs, several tokens a step, errors corrected
  (`UnmaskTrainer`).
- `self_correction`: SFT, and the states of its own decodes that take tokens back (`dllm_rl.self_correction`).
- `objective`: the same, and the expected reward of the next action there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PrinterCallback, Trainer, TrainingArguments, set_seed

from dllm_rl.arguments import UnmaskArguments
from dllm_rl.self_correction import SelfCorrectionArguments, SelfCorrectionTrainer
from dllm_rl.sft import SftArguments, SftDataset, SftTrainer
from dllm_rl.sudoku import SudokuTask
from dllm_rl.trainer import UnmaskTrainer
from llm_rl.training.budget import UNLIMITED_STEPS, Budget, BudgetCallback, rows_after, train_to_budget, trapezoid
from llm_rl.training.callbacks import MetricsWriter
from sudoku_env.prompts.tokens import PreFilled

OWN_STATES = {
    "num_generations": 1,
    "tokens_per_step": 4,
    "on_error": "correct",
    "position_temperature": 3.0,
    "position_temperature_end": 0.3,
    "reduction": "mean",
    "rl_weight": 0.0,
    "sft_weight": 0.0,
    "ce_weight": 1.0,
    "state_fraction": 0.3,
}
ARMS: dict[str, tuple[type[TrainingArguments], dict[str, Any]]] = {
    "sft": (SftArguments, {}),
    "corrupted": (SftArguments, {"corruption": 0.4}),
    "own_states": (UnmaskArguments, OWN_STATES),
    "self_correction": (SelfCorrectionArguments, {}),
    "objective": (SelfCorrectionArguments, {"objective_weight": 1.0, "position_temperature": 0.5}),
}
"""The arguments of each arm, and what they are beside those that all have."""


def train_arm(
    arm: str,
    model: PreTrainedModel,
    problems: Sequence[PreFilled],
    task: SudokuTask,
    folder: Path,
    *,
    budget: Budget,
    seed: int,
    batch_size: int,
    learning_rate: float,
    max_passes: int,
) -> dict[str, float]:
    """Train a model, in place; the rate rises for 2 % of the budget and then falls to zero.

    Args:
        arm: One of `ARMS`.
        model: The base.
        problems: Training puzzles.
        task: What kind of problem they are.
        folder: Where `metrics.jsonl` goes.
        budget: What the training may spend.
        seed: Random seed.
        batch_size: Puzzles an update; as many decodes go on beside them where an arm has such.
        learning_rate: The highest rate.
        max_passes: Most forward passes of such a decode.

    Returns:
        CPU seconds and updates of the training.
    """
    kind, own = ARMS[arm]
    if kind is SelfCorrectionArguments:
        own = {**own, "decodes": batch_size, "max_passes": max_passes}
    set_seed(seed)
    args = kind(
        **{
            "output_dir": str(folder),
            "per_device_train_batch_size": batch_size,
            "learning_rate": learning_rate,
            "max_grad_norm": 1.0,
            "adam_beta2": 0.98,
            "weight_decay": 0.01,
            "seed": seed,
            "max_steps": UNLIMITED_STEPS,
            "lr_scheduler_type": "constant",
            "logging_steps": 50,
            "logging_nan_inf_filter": False,
            "save_strategy": "no",
            "report_to": "none",
            "use_cpu": True,
            "disable_tqdm": True,
            "overwrite_output_dir": True,
            **own,
        }
    )
    trainer: Trainer
    if isinstance(args, UnmaskArguments):
        trainer = UnmaskTrainer(model, args, problems, task)
    else:
        data = SftDataset(task.batch(problems))
        if isinstance(args, SelfCorrectionArguments):
            trainer = SelfCorrectionTrainer(model=model, args=args, task=task, train_dataset=data)
        else:
            trainer = SftTrainer(model=model, args=args, train_dataset=data)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(MetricsWriter(folder / "metrics.jsonl"))
    callback = BudgetCallback(budget, rows_after(trainer), keep_best=False)
    train_to_budget(trainer, callback, trapezoid(0.02, 0.98))
    return {"cpu_seconds": callback.cpu_seconds, "updates": trainer.state.global_step}
