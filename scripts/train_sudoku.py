"""The main job: teach a converged LLaDA to decode 6×6 Sudoku in a more logical order, beside an honest control.

Loads the base model, evaluates it on held-out puzzles, trains it with the objective of docs/objective.md, trains the
control (the same base, masked-diffusion SFT on the same puzzles for the same wall time), evaluates both and prints a
table. The run folder receives the arguments, metrics (JSON lines and TensorBoard), checkpoints, a picture of the curves
and a GIF of one decode.

    python scripts/train_sudoku.py [recipe.yaml] [--learning_rate 1e-4 …]
    python scripts/train_sudoku.py [recipe.yaml] --resume_from_checkpoint last

The second command goes on where a run was stopped, in the control too, and ends with the table of one left alone.
"""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

# Nothing of scripts/ is imported, so that this file runs by its path beside packages that are called so too (verl's).
import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl.arguments import UnmaskArguments
from dllm_rl.callbacks import HeldOutCurve
from dllm_rl.decode import decode
from dllm_rl.evaluate import (
    DEFAULT_STRATEGIES,
    Evaluation,
    evaluate,
    paired_difference,
    paired_order_difference,
)
from dllm_rl.objective import Reduction
from dllm_rl.report import closing_table, plot_run
from dllm_rl.sft import SftArguments, SftDataset, SftTrainer
from dllm_rl.strategies import STRATEGIES
from dllm_rl.sudoku import SudokuTask, Tail
from dllm_rl.trainer import UnmaskTrainer
from llm_rl.training.callbacks import MetricsWriter, QuietProgress
from llm_rl.training.checkpoint import CheckpointError
from llm_rl.training.command_line import USER_ERRORS, fail, need_file, need_model, need_reports, parse, user_errors
from llm_rl.training.logs import read_json_lines
from llm_rl.training.lora import add_lora
from llm_rl.training.output_folder import LAST, RunFolder
from llm_rl.training.quiet import quiet_libraries
from llm_rl.training.storage import write_text_whole
from sudoku_env.envs.rendering import decode_gif
from sudoku_env.errors import SudokuError
from sudoku_env.order import random_order_floor
from sudoku_env.prompts.text import TEMPLATES, build_prompt, parse_puzzle
from sudoku_env.prompts.tokens import PreFilled, pre_fill
from sudoku_env.puzzles import read_prompts

ROOT = Path(__file__).resolve().parent.parent
DTYPES = ("auto", "bfloat16", "float16", "float32")
PROBE_STEPS = 50
"""Steps of the control that tell how many fit into RL's time."""


@dataclass
class ScriptArguments:
    """What to train, on what, and how to judge it."""

    model: str = field(
        default=str(ROOT / "data" / "models" / "llada-sudoku6x6-converged"),
        metadata={"help": "Folder of model and tokenizer."},
    )
    dtype: str = field(default="auto", metadata={"help": "Type of the weights: auto (as saved), bfloat16 or float32."})
    data: str = field(
        default=str(ROOT / "data" / "sudoku6x6_train.jsonl"),
        metadata={"help": "Training prompts: .jsonl, .csv or .parquet with a `prompt` column."},
    )
    eval_data: str = field(
        default=str(ROOT / "data" / "sudoku6x6_few_test.jsonl"), metadata={"help": "Held-out prompts for the table."}
    )
    curve_data: str = field(
        default=str(ROOT / "data" / "sudoku6x6_few_validation.jsonl"),
        metadata={"help": "Held-out prompts for the curve."},
    )
    prompt_template: str | None = field(
        default=None,
        metadata={"help": "Rewrite every prompt with this template (e.g. compact), or keep the prompts as they are."},
    )
    max_gen_length: int = field(default=40, metadata={"help": "Response length in tokens."})
    rule: str = field(
        default="singles", metadata={"help": "Cells definite under this rule (or group) of sudoku_env.logic are S1."}
    )
    tail: Tail = field(
        default="free",
        metadata={"help": "Positions outside the map: any token earns lambda (free), prefill, or scored."},
    )
    max_puzzles: int = field(default=0, metadata={"help": "Train on the first so many prompts; 0 is all."})
    eval_puzzles: int = field(default=1000, metadata={"help": "Held-out puzzles for the table; 0 is all."})
    curve_puzzles: int = field(default=200, metadata={"help": "Held-out puzzles for each point of the curve."})
    curve_points: int = field(default=5, metadata={"help": "Points of the curve after the start; 0 is no curve."})
    control: bool = field(default=True, metadata={"help": "Train the control as well."})
    control_learning_rate: float = field(default=3e-4, metadata={"help": "Learning rate of the control."})
    control_batch_size: int = field(default=128, metadata={"help": "Puzzles in a batch of the control."})

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype={self.dtype!r} is unknown; use one of {', '.join(DTYPES)}")
        if self.prompt_template is not None and self.prompt_template not in TEMPLATES:
            raise ValueError(f"prompt_template={self.prompt_template!r} is unknown; use one of {', '.join(TEMPLATES)}")
        for name, least in {"max_puzzles": 0, "eval_puzzles": 0, "curve_points": 0, "control_batch_size": 1}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")


@dataclass
class RecipeArguments(UnmaskArguments):
    """The main job's recipe; it departs from the library's defaults (docs/objective.md) where two cores ask for it."""

    output_dir: str = field(default=str(ROOT / "runs" / "train_sudoku"), metadata={"help": "Run folder."})
    max_steps: int = field(default=200, metadata={"help": "Optimizer steps: about three minutes on two cores."})
    per_device_train_batch_size: int = field(default=24, metadata={"help": "Puzzles of a roll-out."})
    num_generations: int = field(default=1, metadata={"help": "G: without the first term, more puzzles teach more."})
    position_temperature: float = field(
        default=3.0,
        metadata={"help": "T_pos at the start: at the library's 0.05 few states are visited and f is nearly flat."},
    )
    position_temperature_end: float | None = field(
        default=0.3,
        metadata={"help": "T_pos at the end, where f weighs the cells that compete for the largest margin."},
    )
    ce_weight: float = field(
        default=1.0,
        metadata={"help": "Weight of the masked cross-entropy at visited states, which keeps the digits right."},
    )
    state_fraction: float = field(
        default=0.3, metadata={"help": "Share of the states in an update: neighbors in a trajectory teach the same."}
    )
    rl_weight: float = field(
        default=0.0,
        metadata={"help": "Weight of the first term, whose gradient is noise at this batch; above 0 it needs groups."},
    )
    reduction: Reduction = field(
        default="mean", metadata={"help": "Over steps: sum, or mean, independent of the blanks."}
    )
    learning_rate: float = field(default=3e-4, metadata={"help": "Rate of both terms, unless given apart."})
    lr_scheduler_type: str = field(default="warmup_stable_decay", metadata={"help": "Schedule."})
    warmup_steps: float = field(default=10, metadata={"help": "Cold moments damage the base: rise slowly."})
    max_grad_norm: float = field(default=1.0, metadata={"help": "Clip the gradient to this norm."})
    logging_steps: float = field(default=1, metadata={"help": "Steps between two lines of metrics."})
    save_steps: float = field(default=50, metadata={"help": "Steps between two checkpoints."})
    save_total_limit: int | None = field(default=2, metadata={"help": "Checkpoints to keep."})
    report_to: str | None = field(default="tensorboard", metadata={"help": "Where else to report."})
    use_cpu: bool = field(default=not torch.cuda.is_available(), metadata={"help": "Do not use an accelerator."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_steps < 1:
            raise ValueError(f"max_steps={self.max_steps} must be at least 1")


script, args = parse(ScriptArguments, RecipeArguments, description=__doc__)
for option in ("data", "eval_data", "curve_data"):
    need_file(option, getattr(script, option))
need_model("model", script.model)
need_reports()
folder = RunFolder(args, inputs=[script.model, script.data, script.eval_data, script.curve_data])
quiet_libraries()
set_seed(args.seed)
device = args.device

# Data: pre-filled puzzles; held-out grids must not occur in training.
with user_errors(OSError, ValueError):
    tokenizer = AutoTokenizer.from_pretrained(script.model)
with user_errors(ValueError):
    task = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id, script.tail, script.rule)
judged_as = SudokuTask(tokenizer.pad_token_id)  # by singles, whatever is trained, as the floor is


def load(path: str, count: int) -> list[PreFilled]:
    """The first `count` prompts of a set (0: all), pre-filled."""
    with user_errors(*USER_ERRORS, SudokuError):
        prompts = read_prompts(path)[: count or None]
        if script.prompt_template:
            prompts = [build_prompt(parse_puzzle(prompt), script.prompt_template) for prompt in prompts]
        return [pre_fill(prompt, tokenizer, script.max_gen_length) for prompt in prompts]


train_set = load(script.data, script.max_puzzles)
test_set = load(script.eval_data, script.eval_puzzles)
curve_set = load(script.curve_data, script.curve_puzzles)
train_grids = {puzzle.layout.solution.tobytes() for puzzle in train_set}
for name, puzzles in (("eval_data", test_set), ("curve_data", curve_set)):
    if shared := sum(puzzle.layout.solution.tobytes() in train_grids for puzzle in puzzles):
        fail(f"--{name}: {shared} of {len(puzzles)} solution grids occur in training; split by grid first")
floor = random_order_floor(
    np.stack([puzzle.layout.puzzle for puzzle in test_set]),
    np.stack([puzzle.layout.solution for puzzle in test_set]),
    seed=args.seed,
)


def new_model() -> PreTrainedModel:
    """A fresh copy of the base model, with adapters that do nothing yet if LoRA is asked for."""
    set_seed(args.seed)
    with user_errors(OSError, ValueError):
        model = AutoModelForMaskedLM.from_pretrained(script.model, dtype=script.dtype).to(device)
        if not args.lora_r:
            return model
        return add_lora(
            model,
            r=args.lora_r,
            alpha=args.lora_alpha,
            dropout=args.lora_dropout,
            target_modules=args.lora_target_modules,
        )


def judge(model: PreTrainedModel, name: str) -> dict[str, Evaluation]:
    """Evaluate on the held-out puzzles by each strategy, printing as it goes."""
    results = {}
    for strategy in DEFAULT_STRATEGIES:
        results[strategy] = evaluate(
            model,
            test_set,
            judged_as,
            strategy=STRATEGIES[strategy],
            policy=args.policy_config(1.0),
            seed=args.seed,
            device=device,
        )
        print(f"  {name}: {100 * results[strategy].solved.mean():.1f} % solved by {strategy}", flush=True)
    return results


def curve_steps(steps: int) -> int:
    """Steps between two points of a curve; 0 is no curve."""
    return max(1, steps // script.curve_points) if script.curve_points else 0


def prepare(trainer: Trainer, shown: tuple[str, ...]) -> None:
    """A progress bar with figures in place of a printed line for each log."""
    trainer.remove_callback(PrinterCallback if args.disable_tqdm else ProgressCallback)
    if not args.disable_tqdm:
        trainer.add_callback(QuietProgress(shown))


model = new_model()
run = folder.open({**vars(script), **args.to_sanitized_dict()})
plan_file = run / "control_plan.json"
if args.resume_from_checkpoint != LAST:
    plan_file.unlink(missing_ok=True)
parameters = sum(parameter.numel() for parameter in model.parameters())
trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
print(f"Base model: {parameters:,} parameters, {trained:,} of them trained.")
print(f"{len(train_set)} training puzzles, {len(test_set)} held out.")
evaluations = {"base": judge(model, "base")}

# RL: the objective of docs/objective.md.
if args.lr_scheduler_type == "warmup_stable_decay" and not args.lr_scheduler_kwargs:
    args.lr_scheduler_kwargs = {"num_decay_steps": int(0.4 * args.max_steps)}
curve = HeldOutCurve(run / "curve_rl.jsonl", curve_set, judged_as, curve_steps(args.max_steps))
callbacks = [MetricsWriter(run / "metrics.jsonl"), curve]
with user_errors(CheckpointError, ValueError):
    trainer = UnmaskTrainer(model, args, train_set, task, callbacks=callbacks)
prepare(trainer, ("solved", "greedy_forced", "position_entropy", "clip_frac"))
print(
    f"RL: {args.max_steps} steps of {args.per_device_train_batch_size} puzzles × {args.num_generations} trajectories."
)
with user_errors(CheckpointError):
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
trainer.save_model(str(run / "rl"))
tokenizer.save_pretrained(run / "rl")
evaluations["RL"] = judge(model, "RL")

# Control: the same base and puzzles, masked-diffusion SFT for the same wall time. How many steps that is gets measured
# once and kept, so that a control that was killed goes on from its own checkpoint to the same end.
if script.control:
    control_data = SftDataset(task.batch(train_set))
    planned = plan_file.is_file()

    def control_trainer(steps: int, callbacks: list, **options: Any) -> SftTrainer:
        """SFT from a fresh copy of the base with the schedule of the RL run."""
        checkpointing = [item.name for item in fields(TrainingArguments) if "_checkpointing" in item.name]
        return SftTrainer(
            model=new_model(),
            args=SftArguments(
                output_dir=str(run / "control_checkpoints"),
                per_device_train_batch_size=script.control_batch_size,
                max_steps=steps,
                learning_rate=script.control_learning_rate,
                lr_scheduler_type="warmup_stable_decay",
                lr_scheduler_kwargs={"num_decay_steps": int(0.4 * steps)},
                warmup_steps=min(args.warmup_steps, steps // 10),
                max_grad_norm=args.max_grad_norm,
                weight_decay=args.weight_decay,
                logging_steps=10,
                report_to="none",
                seed=args.seed,
                use_cpu=args.use_cpu,
                remove_unused_columns=False,
                logging_nan_inf_filter=False,
                disable_tqdm=args.disable_tqdm,
                overwrite_output_dir=not planned,
                **{name: getattr(args, name) for name in checkpointing},
                **options,
            ),
            train_dataset=control_data,
            callbacks=callbacks,
        )

    if not planned:
        clock = HeldOutCurve(run / "curve_control.jsonl", [], judged_as, every=0)
        probe = control_trainer(PROBE_STEPS, [clock], save_strategy="no")
        prepare(probe, ())
        with user_errors(CheckpointError):
            probe.train()
        plan = {"rl_seconds": curve.seconds, "steps": max(10, round(PROBE_STEPS * curve.seconds / clock.seconds))}
        write_text_whole(plan_file, json.dumps(plan))
    plan = json.loads(plan_file.read_text(encoding="utf-8"))
    rl_seconds, steps = plan["rl_seconds"], plan["steps"]
    curve = HeldOutCurve(run / "curve_control.jsonl", curve_set, judged_as, curve_steps(steps))
    control = control_trainer(
        steps,
        [MetricsWriter(run / "metrics_control.jsonl"), curve],
        save_strategy="steps",
        save_steps=max(1, steps // 4),
        save_total_limit=1,
    )
    prepare(control, ("loss",))
    print(f"Control: SFT, {steps} steps of {script.control_batch_size} puzzles.")
    with user_errors(CheckpointError):
        control.train(resume_from_checkpoint=LAST if planned else None)
    control.save_model(str(run / "control"))
    tokenizer.save_pretrained(run / "control")
    print(f"  training time: RL {rl_seconds:.0f} s, control {curve.seconds:.0f} s")
    evaluations["control"] = judge(control.model, "control")

# Table, curves, one decode.
table = closing_table(evaluations, floor)
table.to_csv(run / "table.csv", float_format="%.4f")
print(f"\nHeld-out puzzles ({len(test_set)}), seed {args.seed}:\n\n{table.to_string(float_format='{:.1f}'.format)}\n")
for other in [name for name in evaluations if name != "RL"]:
    for strategy in DEFAULT_STRATEGIES:
        mean, half = paired_difference(evaluations["RL"][strategy], evaluations[other][strategy])
        print(f"RL - {other}, {strategy}: {100 * mean:+.1f} ± {100 * half:.1f} points (95 %, paired over puzzles)")
    mean, half = paired_order_difference(evaluations["RL"]["margin"], evaluations[other]["margin"])
    print(f"RL - {other}, greedy_forced: {100 * mean:+.2f} ± {100 * half:.2f} points")
if script.curve_points:
    names = ("rl", "control") if script.control else ("rl",)
    curves = {name: read_json_lines(run / f"curve_{name}.jsonl") for name in names}
    plot_run(read_json_lines(run / "metrics.jsonl"), curves, floor, run / "curves.png")
chosen = test_set[int(np.argmax(evaluations["RL"]["margin"].solved))]
batch = judged_as.batch([chosen]).to(device)
record = decode(model, batch, STRATEGIES["margin"], on_error="end")
decode_gif(run / "decode.gif", batch.boards(record.states_of(0)), chosen.layout.solution)
print(f"\nRun folder: {run} (table.csv, curves.png, decode.gif, metrics.jsonl, TensorBoard, checkpoints)")
