"""Train a small base model: masked-diffusion SFT on generated puzzles, by default 6×6 ones with many clues.

The rate is held until held-out accuracy has levelled off, then annealed to zero. The base is meant to be converged on
what it was trained on and weak on puzzles with few clues, which it never saw: that is where decoding order has room.
Writes the tokenizer, the annealed model with its card, the model as it was before annealing, and the curve of both
stages. Runs on an accelerator if there is one.

    python -m scripts.sudoku.pretrain [recipe.yaml] [--batch_size 256 …] [--resume_from_checkpoint last]
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from transformers import (
    AutoModelForMaskedLM,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_callback import ExportableState

from dllm_rl import (
    STRATEGIES,
    Decoding,
    LladaConfig,
    LladaForMaskedLM,
    SftArguments,
    SftDataset,
    SftTrainer,
    SudokuTask,
    evaluate,
    get_strategy,
)
from llm_rl import MetricsWriter
from llm_rl.core._checks import check_choice
from llm_rl.core._options import option
from llm_rl.training import (
    USER_ERRORS,
    CheckpointError,
    RunFolder,
    fail,
    need_model,
    parse,
    user_errors,
    write_json_lines,
    write_text_whole,
)
from scripts.shared.small_tokenizer import build_small_tokenizer
from scripts.sudoku.endless import EndlessPuzzles
from scripts.sudoku.hold_anneal import HoldThenAnneal
from scripts.sudoku.masks import MaskKind, ordered_loss
from scripts.sudoku.model_card import write_card
from sudoku_dllm.models import record_sizes
from sudoku_env import Board, PreFilled, SudokuError, build_prompt, generate, pre_fill, pre_fill_boards
from sudoku_env.split import in_split

SIZES = ("d_model", "n_layers", "n_heads", "mlp_hidden_size", "rope_theta", "vocab_size")
"""What a model to begin with must have as the recipe says."""


@dataclass
class PretrainArguments:
    """Arguments of `scripts/sudoku/pretrain.py`."""

    output_dir: str = option("runs/pretrain", "Folder to write to.")
    name: str | None = option(None, "Name of the model, in its card.")
    start: str | None = option(None, "Folder of a model of the recipe's sizes to begin with; None: random weights.")
    size: int = option(6, "Board size.")
    clues_low: int = option(28, "Fewest clues of a training puzzle.")
    clues_high: int = option(34, "Most clues of a training puzzle.")
    rule: str | None = option("singles", "Rules (or a group) that solve every puzzle; null in YAML: any difficulty.")
    singles: float = option(1.0, "Without an end: the share that is kept of the puzzles which singles solve.")
    puzzles: int = option(
        100_000,
        "Training puzzles, before those of held-out grids are left out; 0: new ones without an end, with "
        "images under the symmetries of Sudoku.",
    )
    answer_layout: str | None = option(
        None, "Answer layout, e.g. bare, without a prompt; by default the first that fits."
    )
    chunk: int = option(3, "Cells of a packed puzzle in one token of the prompt.")
    hard_low: int = option(14, "Fewest clues of the puzzles to transfer to (evaluation only).")
    hard_high: int = option(18, "Most clues of the puzzles to transfer to (evaluation only).")
    eval_puzzles: int = option(300, "Validation puzzles of each kind.")
    tail: int = option(3, "Response positions after the map.")
    d_model: int = option(64, "Width.")
    n_layers: int = option(4, "Blocks.")
    n_loops: int | None = option(None, "How often a pass goes through the blocks; by default as in the start, or once.")
    n_heads: int = option(2, "Attention heads.")
    mlp_hidden_size: int = option(128, "Width of the MLP.")
    rope_theta: float = option(100.0, "Base of the rotary frequencies; sequences are short.")
    hold_steps: int = option(4500, "Updates at the full rate at most, warm-up included.")
    patience: int = option(
        0, "Anneal after so many points of the curve without a gain in margin decoding; 0: never early."
    )
    min_gain: float = option(0.0, "Smallest gain in solve rate that counts for patience.")
    anneal_steps: int = option(2500, "Updates while the rate falls to zero.")
    warmup_steps: int = option(100, "Updates while the rate rises.")
    learning_rate: float = option(2e-3, "The full rate.")
    batch_size: int = option(128, "Puzzles an update.")
    masks: MaskKind = option("random", "Which cells are masked (scripts.sudoku.masks).")
    eval_steps: int = option(500, "Updates between two points of the curve.")
    curve_strategies: list[str] = option(
        ["margin", "probability", "definite_first"],
        f"Strategies of the curve on the puzzles to transfer to, some of {', '.join(STRATEGIES)}.",
    )
    save_steps: int | None = option(None, "Updates between two checkpoints; by default as between points of the curve.")
    bf16: bool = option(False, "Compute the body in bfloat16; weights and head stay fp32.")
    save_dtype: Literal["float32", "bfloat16"] = option("float32", "Type of the saved weights.")
    checkpoints: int = option(1, "Checkpoints to keep.")
    resume_from_checkpoint: str | None = option(None, "A checkpoint's folder, or last.")
    overwrite_output_dir: bool = option(False, "Start anew in a folder that holds a run, which is deleted.")
    resume_with_changes: bool = option(False, "Resume although arguments or data differ from the checkpoint's.")
    seed: int = option(0, "Random seed of puzzles, initialization and masks.")


class CurveCallback(TrainerCallback, ExportableState):
    """Evaluates at regular steps, ends the hold and the training, and saves the model once before annealing."""

    def __init__(self, sets: dict[str, list[PreFilled]], args: PretrainArguments, plan: HoldThenAnneal) -> None:
        self.sets, self.args, self.plan = sets, args, plan
        self.points: list[dict[str, float]] = []

    def state(self) -> dict[str, Any]:
        """Points and schedule, for a checkpoint."""
        return {"args": {}, "attributes": {"points": self.points, "plan": self.plan.state_dict()}}

    def on_train_begin(
        self, _: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Start, or go on from a checkpoint."""
        if state.global_step:
            saved = state.stateful_callbacks[type(self).__name__]["attributes"]
            self.points = saved["points"]
            self.plan.load_state_dict(saved["plan"])
            control.should_training_stop = state.global_step >= self.plan.last_step

    def on_step_end(
        self,
        _: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: LladaForMaskedLM,
        **kwargs: object,
    ) -> None:
        """Add a point to the curve."""
        step = state.global_step
        if step % self.args.eval_steps == 0:
            line: dict[str, float] = {"step": step}
            for name, puzzles in self.sets.items():
                for strategy in ("margin",) if name == "in" else self.args.curve_strategies:
                    result = evaluate(model, puzzles, task, Decoding(strategy, on_error="end"))
                    line[f"{name}/{strategy}"] = float(result.solved.mean())
                    if strategy != "definite_first":
                        line[f"{name}/{strategy}/greedy_definite"] = result.greedy_definite
            self.points.append(line)
            write_json_lines(Path(self.args.output_dir) / "curve.jsonl", self.points)
            print(line, flush=True)
            self.plan.observe(step, line["in/margin"])
        if step == self.plan.anneal_from:
            save(model, "unannealed")
        if step >= self.plan.last_step:
            control.should_training_stop = True


class BaseTrainer(SftTrainer):
    """Masked-diffusion SFT with the rate of a `HoldThenAnneal`, on puzzles that may have no end, masked in some way."""

    def __init__(self, plan: HoldThenAnneal, masks: MaskKind, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan, self.masks = plan, masks

    def compute_loss(self, model: Any, inputs: dict[str, Any], *further: Any, **kwargs: Any) -> Tensor:
        """The loss of a batch; see `SftTrainer.compute_loss`."""
        if self.masks == "random":
            return super().compute_loss(model, inputs, *further, **kwargs)
        return ordered_loss(model, inputs, self.accelerator.unwrap_model(model).config.mask_token_id)

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """The plan as a scheduler."""
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, self.plan.factor)
        return self.lr_scheduler

    def identity(self) -> dict[str, Any]:
        """What a checkpoint keeps to tell runs apart; puzzles without an end by the arguments that make them."""
        if self.masks != "random":
            self._settings["masks"] = self.masks
        if isinstance(self.train_dataset, EndlessPuzzles):
            self._settings.setdefault("train_dataset", self.train_dataset.identity)
        return super().identity()


(args,) = parse(PretrainArguments, description=__doc__)
with user_errors(ValueError):
    plan = HoldThenAnneal(
        args.warmup_steps, args.hold_steps, args.anneal_steps, patience=args.patience, min_gain=args.min_gain
    )
    tokenizer = build_small_tokenizer(args.size, args.chunk, args.answer_layout)
    for name in args.curve_strategies:
        get_strategy(name)
    check_choice("masks", args.masks, MaskKind)
    if args.puzzles and args.singles != 1:
        raise ValueError(f"singles={args.singles} needs puzzles without an end; ask for --puzzles 0")
config = LladaConfig(
    d_model=args.d_model,
    n_layers=args.n_layers,
    n_loops=1 if args.n_loops is None else args.n_loops,
    n_heads=args.n_heads,
    mlp_hidden_size=args.mlp_hidden_size,
    rope_theta=args.rope_theta,
    vocab_size=len(tokenizer),
    max_sequence_length=1024,
    mask_token_id=tokenizer.mask_token_id,
    bos_token_id=tokenizer.bos_token_id,
    eos_token_id=tokenizer.eos_token_id,
    pad_token_id=tokenizer.pad_token_id,
)
if args.start is not None:
    need_model("start", args.start)
    with user_errors(*USER_ERRORS):
        begun = LladaConfig.from_pretrained(args.start)
    wanted = {name: getattr(config, name) for name in SIZES}
    if wanted != (found := {name: getattr(begun, name) for name in SIZES}):
        fail(f"--start {args.start} has the sizes {found}, but the recipe has {wanted}")
    if args.n_loops is None:
        config.n_loops = begun.n_loops
args.n_loops = config.n_loops
run_folder = RunFolder(args, inputs=[] if args.start is None else [args.start])
set_seed(args.seed)
task = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id)


def fill(board: Board, length: int | None = None) -> PreFilled:
    """A board, pre-filled, with a response of so many tokens."""
    return pre_fill(build_prompt(board, "compact"), tokenizer, max_gen_length if length is None else length)


def prepare(count: int, clues: tuple[int, int], split: str, seed: int) -> list[PreFilled]:
    """Pre-filled puzzles of one split."""
    with user_errors(*USER_ERRORS, SudokuError):
        pool = generate(count, size=args.size, clues=clues, rule=args.rule, seed=seed)
    kept = in_split(pool.solutions, split)
    if not kept.any():
        fail(
            f"none of {count} puzzles of size {args.size} is of the {split} split, which grids are dealt to up to "
            "symmetry; ask for more, or for a larger size (4×4 has two grids)"
        )
    return pre_fill_boards(pool.boards[kept], tokenizer, max_gen_length, template="compact")


def save(model: LladaForMaskedLM, name: str) -> Path:
    """Write the model and the tokenizer to a folder of the run; weights are rounded to `save_dtype`."""
    folder, dtype = output / name, getattr(torch, args.save_dtype)
    record_sizes(model, [args.size])
    model.save_pretrained(folder, state_dict={key: value.to(dtype) for key, value in model.state_dict().items()})
    tokenizer.save_pretrained(folder)
    return folder


clues, hard_clues = (args.clues_low, args.clues_high), (args.hard_low, args.hard_high)
with user_errors(*USER_ERRORS, SudokuError):
    one = generate(1, size=args.size, clues=clues, rule=args.rule, seed=args.seed).boards[0]
    max_gen_length = fill(one, 4 * args.size**2).map_range[1] + args.tail
    training: SftDataset | EndlessPuzzles
    if args.puzzles:
        training = SftDataset(task.batch(prepare(args.puzzles, clues, "train", args.seed + 1)))
    else:
        training = EndlessPuzzles(
            fill, task, size=args.size, clues=clues, rule=args.rule, seed=args.seed + 1, singles=args.singles
        )
sets = {
    "in": prepare(12 * args.eval_puzzles, clues, "validation", args.seed + 2)[: args.eval_puzzles],
    "transfer": prepare(12 * args.eval_puzzles, hard_clues, "validation", args.seed + 3)[: args.eval_puzzles],
}
output = run_folder.open(asdict(args))
if args.start is None:
    model = LladaForMaskedLM(config)
else:
    model = LladaForMaskedLM.from_pretrained(args.start, n_loops=args.n_loops).float()
known = f"{len(training):,} training puzzles" if args.puzzles else "training puzzles without an end"
print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {known}")
callbacks = [CurveCallback(sets, args, plan), MetricsWriter(output / "training_log.jsonl")]
trainer = BaseTrainer(
    plan,
    args.masks,
    model=model,
    args=SftArguments(
        output_dir=str(output / "checkpoints"),
        per_device_train_batch_size=args.batch_size,
        max_steps=args.hold_steps + args.anneal_steps,
        learning_rate=args.learning_rate,
        weight_decay=0.01,
        adam_beta2=0.98,
        max_grad_norm=1.0,
        logging_steps=100,
        save_strategy="steps",
        save_steps=args.save_steps or args.eval_steps,
        save_total_limit=args.checkpoints,
        save_only_model=False,
        report_to="none",
        seed=args.seed,
        train_sampling_strategy="random" if args.puzzles else "sequential",
        use_cpu=not torch.accelerator.is_available(),
        bf16=args.bf16,
        logging_nan_inf_filter=False,
        disable_tqdm=not sys.stderr.isatty(),
        resume_with_changes=args.resume_with_changes,
    ),
    train_dataset=training,
    processing_class=tokenizer,
    callbacks=callbacks,
)
with user_errors(CheckpointError):
    trained = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)

# The saved weights as they load, judged for the card.
folder = save(model, "annealed")
write_text_whole(folder / "arguments.json", json.dumps(asdict(args), indent=2))
saved = AutoModelForMaskedLM.from_pretrained(folder).to(trainer.args.device)
figures = {
    (f"{low}–{high}", strategy): float(
        evaluate(saved, sets[name], task, Decoding(strategy, on_error="end")).solved.mean()
    )
    for name, (low, high) in (("in", clues), ("transfer", hard_clues))
    for strategy in ("margin", "probability", "definite_first")
}
write_card(
    folder,
    asdict(args),
    figures,
    parameters=model.num_parameters(),
    vocabulary=len(tokenizer),
    training=len(training) if args.puzzles else trainer.state.global_step * args.batch_size,
    anneal_from=plan.anneal_from,
    seconds=trained.metrics["train_runtime"],
    device=trainer.args.device.type,
)
