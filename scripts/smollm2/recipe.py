"""What the scripts that train SmolLM2 share: the task, the supervised start, adapters, evaluation, the table."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from llm_rl import MetricsWriter, QuietProgress, RolloutTrainer, add_lora, supervised_trainer
from llm_rl.rollout.rewards import RewardFunction
from llm_rl.training import (
    LAST,
    CheckpointError,
    RunArguments,
    RunFolder,
    need_model,
    need_reports,
    quiet_libraries,
    user_errors,
    whole_folder,
)
from scripts.smollm2.loader import load_smollm2
from scripts.smollm2.page import answers_of
from scripts.smollm2.report import report
from scripts.smollm2.run_state import Judgements, StepClock
from sudoku_env import chat_rows
from sudoku_env.chat import ChatRow, cells_reward, exact_reward, givens_reward
from sudoku_env.puzzle_sets import draw_by_split

LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
CRITIC_TEMPLATE = "{question}\nAnswer 1: {answer_1}\nAnswer 2: {answer_2}\nWhich answer did the expert write?"
"""A short one, for RARO's critic."""
VERIFIERS: dict[RewardFunction, str] = {
    givens_reward: "given digits kept",
    cells_reward: "blanks filled rightly",
    exact_reward: "grids solved",
}
"""Rewards of a grid, with the titles of their panels."""
REWARDS = [*VERIFIERS]
REWARD_PANELS = {"reward_mean": "reward", **{f"reward/{one.__name__}": title for one, title in VERIFIERS.items()}}
DTYPES = ("bfloat16", "float16", "float32")
CONTROL = "more SFT"
SUPERVISED_SAVE_STEPS = 25
"""Steps of start and control between two checkpoints."""


@dataclass
class StartArguments:
    """The model, the supervised start, and how training is judged."""

    model: str = field(
        default="smollm2", metadata={"help": "smollm2 (scripts.smollm2.loader), or a folder with a tokenizer."}
    )
    start: str | None = field(
        default=None,
        metadata={"help": "Folder of the supervised start; made if it is not there. None: in the run folder."},
    )
    start_only: bool = field(default=False, metadata={"help": "Make the start, and no more."})
    sft_steps: int = field(default=10, metadata={"help": "Optimizer steps of the start."})
    sft_batch_size: int = field(default=8, metadata={"help": "Answers in a batch of the start and of the control."})
    sft_learning_rate: float = field(default=2e-3, metadata={"help": "Rate of the start's adapters; it falls to 0."})
    control_learning_rate: float = field(default=5e-4, metadata={"help": "Rate of the control, constant."})
    greedy: bool = field(default=True, metadata={"help": "Judge greedy decoding as well, beside sampling."})
    train_seconds: float | None = field(
        default=None,
        metadata={"help": "End RL after so many seconds of its steps, CPU seconds on a CPU; None: at max_steps."},
    )
    control: bool = field(
        default=False, metadata={"help": "Train more of the start for the seconds that RL took (control_model)."}
    )
    dtype: str = field(
        default="bfloat16" if torch.cuda.is_available() else "float32",
        metadata={"help": "Type of the frozen weights; adapters are float32. Few CPUs multiply in 16 bits."},
    )
    lora_r: int = field(default=16, metadata={"help": "Rank of the adapters of start, RL and control; 0: all weights."})
    lora_alpha: int = field(default=32, metadata={"help": "Scale of the adapters."})

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype={self.dtype!r} is unknown; use one of {', '.join(DTYPES)}")
        if self.train_seconds is not None and not self.train_seconds > 0:
            raise ValueError(f"train_seconds={self.train_seconds} must be positive, or None for max_steps alone")


@dataclass
class TaskArguments(StartArguments):
    """Arguments of the start and of the puzzles."""

    form: str = field(default="response", metadata={"help": "Form of prompts and answers (sudoku_env.chat.rows.Form)."})
    clues_low: int = field(default=13, metadata={"help": "Fewest clues of a 4x4 puzzle."})
    clues_high: int = field(default=14, metadata={"help": "Most clues of a 4x4 puzzle."})
    puzzle_seed: int = field(default=2026, metadata={"help": "Random seed of the puzzles, the same for all seeds."})
    train_puzzles: int = field(default=800, metadata={"help": "Puzzles for the start, RL and the control."})
    curve_puzzles: int = field(default=32, metadata={"help": "Held-out puzzles for the curve."})
    test_puzzles: int = field(default=48, metadata={"help": "Held-out puzzles for the table."})


@dataclass
class RunDefaults:
    """What the recipes of all scripts have in common, to be put before the trainer's arguments."""

    per_device_eval_batch_size: int = field(default=64, metadata={"help": "Held-out prompts at a time."})
    learning_rate: float = field(default=4e-4, metadata={"help": "Rate of the adapters."})
    lr_scheduler_type: str = field(default="constant_with_warmup", metadata={"help": "Schedule."})
    warmup_steps: float = field(
        default=4, metadata={"help": "Steps while the rate rises; without, Adam's first steps break the format."}
    )
    max_grad_norm: float = field(default=1.0, metadata={"help": "Clip the gradient to this norm."})
    eval_strategy: str = field(default="steps", metadata={"help": "When to take a point of the curve."})
    eval_steps: float | None = field(default=4, metadata={"help": "Steps between two points of the curve."})
    eval_on_start: bool = field(default=True, metadata={"help": "A point before training."})
    logging_steps: float = field(default=1, metadata={"help": "Steps between two lines of metrics."})
    save_steps: float = field(default=4, metadata={"help": "Steps between two checkpoints."})
    save_total_limit: int | None = field(default=1, metadata={"help": "Checkpoints to keep."})
    report_to: str | None = field(default="none", metadata={"help": "Where else to report."})
    use_cpu: bool = field(default=not torch.cuda.is_available(), metadata={"help": "Do not use an accelerator."})


@dataclass
class RecipeDefaults(RunDefaults):
    """The same for trainers whose policy samples groups of completions."""

    per_device_train_batch_size: int = field(default=32, metadata={"help": "The policy's completions of a roll-out."})
    num_generations: int = field(default=8, metadata={"help": "G: the policy's completions of each prompt."})


def choose_folder(task: StartArguments, args: Any) -> RunFolder:
    """The run's folder, with quiet libraries and the seed, once the models that it needs are found to be there."""
    quiet_libraries()
    need_reports()
    if task.model != "smollm2":
        need_model("model", task.model)
    if task.start is not None and Path(task.start).exists():
        need_model("start", task.start)
    set_seed(args.seed)
    return RunFolder(args, inputs=[task.model, *([] if task.start is None else [task.start])])


def puzzle_rows(task: TaskArguments) -> dict[str, list[ChatRow]]:
    """Rows to train on, for the curve and for the table; no grid is in two of them."""
    counts = (task.train_puzzles, task.curve_puzzles, task.test_puzzles)
    clues = (task.clues_low, task.clues_high)
    with user_errors(ValueError):
        sets = draw_by_split(4, counts, clues=clues, rule="singles", exact=False, seed=task.puzzle_seed)
        return {split: chat_rows(puzzles, task.puzzle_seed, form=task.form) for split, puzzles in sets.items()}  # type: ignore[arg-type]


def trainable(task: StartArguments, folder: Path | None = None) -> tuple[Any, Any]:
    """The model of a folder, by default the base, ready to train, with fresh adapters if asked for; its tokenizer."""
    with user_errors(OSError, ImportError, ValueError):
        if folder is None and task.model == "smollm2":
            model, tokenizer = load_smollm2()
        else:
            source = task.model if folder is None else folder
            model = AutoModelForCausalLM.from_pretrained(source, dtype="float32")
            tokenizer = AutoTokenizer.from_pretrained(source)
    model = model.to(getattr(torch, task.dtype))
    if task.lora_r:
        model = add_lora(model, r=task.lora_r, alpha=task.lora_alpha, target_modules=LORA_TARGETS)
    return model, tokenizer


def save_merged(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write model and tokenizer whole, adapters added to the weights, in float32."""
    model = model.float()
    with whole_folder(folder) as partial:
        (model.merge_and_unload() if isinstance(model, PeftModel) else model).save_pretrained(partial)
        tokenizer.save_pretrained(partial)


def quiet(trainer: Trainer, shown: Sequence[str]) -> None:
    """A progress bar with figures in place of a printed line for each log."""
    trainer.remove_callback(PrinterCallback if trainer.args.disable_tqdm else ProgressCallback)
    if not trainer.args.disable_tqdm:
        trainer.add_callback(QuietProgress(shown))


def supervise(
    task: StartArguments, args: TrainingArguments, rows: Sequence[Any], start: Path | None, clock: StepClock
) -> tuple[Any, Any]:
    """Supervised training from the base (`start` None: `sft_steps` steps) or from a start (for the clock's budget).

    Where the last run is resumed, so is this, from a checkpoint of its own.
    """
    set_seed(args.seed)
    model, tokenizer = trainable(task, start)
    name = "start" if start is None else "control"
    # How many steps fit into the budget is not known: the clock ends training, at a constant learning rate.
    steps = task.sft_steps if clock.budget is None else 1_000_000
    trainer = supervised_trainer(
        model,
        RunArguments(
            output_dir=str(Path(args.output_dir) / f"{name}_checkpoints"),
            overwrite_output_dir=args.resume_from_checkpoint != LAST,
            max_steps=steps,
            per_device_train_batch_size=task.sft_batch_size,
            learning_rate=task.sft_learning_rate if start is None else task.control_learning_rate,
            lr_scheduler_type="linear" if clock.budget is None else "constant",
            warmup_steps=min(5, steps // 4),
            logging_steps=5,
            save_steps=SUPERVISED_SAVE_STEPS,
            save_total_limit=1,
            report_to="none",
            seed=args.seed,
            use_cpu=args.use_cpu,
            disable_tqdm=args.disable_tqdm,
        ),
        rows,
        tokenizer,
        callbacks=[MetricsWriter(Path(args.output_dir) / f"metrics_{name}.jsonl"), clock],
    )
    quiet(trainer, ("loss",))
    with user_errors(CheckpointError):
        trainer.train(resume_from_checkpoint=LAST if args.resume_from_checkpoint == LAST else None)
    return model, tokenizer


def make_start(task: StartArguments, args: TrainingArguments, rows: Sequence[Any]) -> Path:
    """The folder of the supervised start, trained if it is not there."""
    folder = Path(args.output_dir) / "start" if task.start is None else Path(task.start)
    if not folder.is_dir():
        clock = StepClock()
        save_merged(*supervise(task, args, rows, None, clock), folder)
        print(f"Start: {task.sft_steps} supervised steps of {task.sft_batch_size} answers, {clock.seconds:.0f} s.")
    return folder


def judge(trainer: RolloutTrainer, rows: Sequence[Any], greedy: bool) -> dict[str, dict[str, float]]:
    """Held-out metrics of sampling at the training's temperature, and of greedy decoding if asked for."""
    found = {"sampled": trainer.evaluate(rows, metric_key_prefix="test")}
    if greedy:
        found["greedy"] = trainer.evaluate(rows, metric_key_prefix="test", greedy=True)
    return {way: {name.removeprefix("test_"): value for name, value in values.items()} for way, values in found.items()}


def judge_models(
    task: StartArguments,
    folders: Sequence[str],
    rows: Sequence[Any],
    new_trainer: Callable[[Any, Any], RolloutTrainer],
    shown: Sequence[str],
) -> None:
    """Print a line for each model, with the same rows and random numbers for all.

    Args:
        task: The task; what it says of adapters is not used.
        folders: Folders of the models with their tokenizers.
        rows: Held-out rows.
        new_trainer: Makes what judges of a model and a tokenizer.
        shown: Metrics to print.
    """
    for folder in folders:
        found = judge(new_trainer(*trainable(replace(task, lora_r=0), Path(folder))), rows, task.greedy)
        ways = [
            f"{way} {', '.join(f'{name} {values.get(name, math.nan):.3f}' for name in shown)}"
            for way, values in found.items()
        ]
        print(f"{folder}: {'; '.join(ways)}", flush=True)


def rewarded(kind: Callable[..., RolloutTrainer], args: Any) -> Callable[..., RolloutTrainer]:
    """What makes a trainer on `REWARDS` for `train_and_judge`.

    Args:
        kind: The trainer's class.
        args: Its arguments.
    """

    def new_trainer(
        model: Any, tokenizer: Any, rows: Mapping[str, Sequence[Any]], callbacks: list[TrainerCallback] | None
    ) -> RolloutTrainer:
        return kind(
            model, REWARDS, args, rows["train"], tokenizer, eval_dataset=rows["validation"], callbacks=callbacks
        )

    return new_trainer


def train_and_judge(
    name: str,
    task: StartArguments,
    args: Any,
    folder: RunFolder,
    rows: Mapping[str, Sequence[Any]],
    expert_rows: Sequence[Any],
    new_trainer: Callable[..., RolloutTrainer],
    panels: Mapping[str, str],
    shown: Sequence[str],
    *,
    asked: Sequence[Any] | None = None,
    verifiers: Sequence[RewardFunction] = REWARDS,
) -> None:
    """The start and, unless that is all, RL from it and the control if asked for, judged on held-out rows; the report.

    A run that is resumed takes over what it had finished: the start, judgements, steps and the time that they took.

    Args:
        name: Name of the algorithm.
        task: The task.
        args: Arguments of the trainer.
        folder: The run's folder, from `choose_folder`.
        rows: "train", "validation" for the curve and "test" for the table.
        expert_rows: What start and control learn from, each with "prompt" and "chosen".
        new_trainer: Makes a trainer of a model, a tokenizer, the rows and callbacks.
        panels: Held-out metric → what the picture and the table call it.
        shown: Metrics beside the progress bar.
        asked: Held-out rows with "prompt", whose answers the page shows; None: those for the table.
        verifiers: What the page says of the answers.
    """
    run = folder.open({**asdict(task), **args.to_sanitized_dict()})
    judged = Judgements(run / "judged.json", keep=args.resume_from_checkpoint == LAST)
    start = make_start(task, args, expert_rows)
    if task.start_only:
        return
    set_seed(args.seed)  # the same adapters, whether the start was made now or was there
    model, tokenizer = trainable(task, start)
    clock = StepClock(task.train_seconds)
    with user_errors(CheckpointError, ValueError):
        trainer = new_trainer(model, tokenizer, rows, [MetricsWriter(run / "metrics.jsonl"), clock])
    quiet(trainer, shown)
    judged.add("start", lambda: judge(trainer, rows["test"], task.greedy))
    print(f"{name}: {args.max_steps} steps of {args.completions_per_rollout} completions.", flush=True)
    with user_errors(CheckpointError):
        trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    judged.add(name, lambda: judge(trainer, rows["test"], task.greedy))
    save_merged(model, tokenizer, run / "model")
    if task.control and not (CONTROL in judged.results and (run / "control_model").is_dir()):
        model, tokenizer = supervise(task, args, expert_rows, start, StepClock(clock.seconds))
        judged.add(CONTROL, lambda: judge(new_trainer(model, tokenizer, rows, None), rows["test"], task.greedy))
        save_merged(model, tokenizer, run / "control_model")
    answers = answers_of(run / "model", rows["test"] if asked is None else asked, args.max_completion_length, verifiers)
    report(run, name, judged.results, args.seed, clock.seconds, panels, answers)
