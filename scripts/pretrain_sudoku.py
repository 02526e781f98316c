"""Train the small base model: masked-diffusion SFT on 6×6 puzzles with many clues.

The rate is held until held-out accuracy has levelled off, then annealed to zero. The base is meant to be converged on
what it was trained on and weak on puzzles with few clues, which it never saw: that is where decoding order has room.
Writes the tokenizer, the annealed model, the model as it was before annealing, and the curve of both stages.
"""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import HfArgumentParser, TrainerCallback, TrainerControl, TrainerState, TrainingArguments, set_seed

from dllm_rl.callbacks import MetricsWriter, append_json_line
from dllm_rl.evaluate import evaluate
from dllm_rl.llada import LladaConfig, LladaForMaskedLM
from dllm_rl.pretrain import SftDataset, SftTrainer
from dllm_rl.small_tokenizer import build_small_tokenizer
from sudoku_env.generator import generate
from sudoku_env.split import in_split
from sudoku_env.text import build_prompt
from sudoku_env.tokens import PreFilled, pre_fill


@dataclass
class PretrainArguments:
    """Arguments of `pretrain_sudoku.py`."""

    output_dir: str = field(default="runs/pretrain", metadata={"help": "Folder to write to."})
    size: int = field(default=6, metadata={"help": "Board size."})
    clues_low: int = field(default=28, metadata={"help": "Fewest clues of a training puzzle."})
    clues_high: int = field(default=34, metadata={"help": "Most clues of a training puzzle."})
    puzzles: int = field(
        default=100_000, metadata={"help": "Training puzzles, before those of held-out grids are left out."}
    )
    hard_low: int = field(
        default=14, metadata={"help": "Fewest clues of the puzzles to transfer to (evaluation only)."}
    )
    hard_high: int = field(default=18, metadata={"help": "Most clues of the puzzles to transfer to (evaluation only)."})
    eval_puzzles: int = field(default=300, metadata={"help": "Validation puzzles of each kind."})
    tail: int = field(default=3, metadata={"help": "Response positions after the map."})
    d_model: int = field(default=64, metadata={"help": "Width."})
    n_layers: int = field(default=4, metadata={"help": "Blocks."})
    n_heads: int = field(default=2, metadata={"help": "Attention heads."})
    mlp_hidden_size: int = field(default=128, metadata={"help": "Width of the MLP."})
    rope_theta: float = field(default=100.0, metadata={"help": "Base of the rotary frequencies; sequences are short."})
    hold_steps: int = field(default=4500, metadata={"help": "Updates at the full rate, warm-up included."})
    anneal_steps: int = field(default=2500, metadata={"help": "Updates while the rate falls to zero."})
    warmup_steps: int = field(default=100, metadata={"help": "Updates while the rate rises."})
    learning_rate: float = field(default=2e-3, metadata={"help": "The full rate."})
    batch_size: int = field(default=128, metadata={"help": "Puzzles an update."})
    eval_steps: int = field(default=500, metadata={"help": "Updates between two points of the curve."})
    seed: int = field(default=0, metadata={"help": "Of puzzles, initialization and masks."})


class CurveCallback(TrainerCallback):
    """Evaluates at regular steps, and saves the model once before annealing."""

    def __init__(self, sets: dict[str, list[PreFilled]], args: PretrainArguments, pad_id: int) -> None:
        self.sets, self.args, self.pad_id = sets, args, pad_id
        self.curve = Path(args.output_dir) / "curve.jsonl"
        self.curve.unlink(missing_ok=True)

    def on_step_end(
        self,
        _: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: LladaForMaskedLM,
        **kwargs: object,
    ) -> None:
        """Append a line to the curve."""
        step = state.global_step
        if step == self.args.hold_steps:
            model.save_pretrained(Path(self.args.output_dir) / "unannealed")
        if step % self.args.eval_steps:
            return
        line: dict[str, float] = {"step": step}
        for name, puzzles in self.sets.items():
            for strategy in ("margin",) if name == "in" else ("margin", "probability", "forced_first"):
                result = evaluate(model, puzzles, pad_id=self.pad_id, strategy=strategy)
                line[f"{name}/{strategy}"] = float(result.solved.mean())
                if strategy != "forced_first":
                    line[f"{name}/{strategy}/greedy_forced"] = result.greedy_forced
        append_json_line(self.curve, line)
        print(line, flush=True)


(args,) = HfArgumentParser(PretrainArguments).parse_args_into_dataclasses()
set_seed(args.seed)
output = Path(args.output_dir)
output.mkdir(parents=True, exist_ok=True)
(output / "training_log.jsonl").unlink(missing_ok=True)
tokenizer = build_small_tokenizer(args.size)
max_gen_length = 1 + args.size**2 + args.tail


def prepare(count: int, clues: tuple[int, int], split: str, seed: int) -> list[PreFilled]:
    """Pre-filled puzzles of one split."""
    pool = generate(count, size=args.size, clues=clues, rule="singles", seed=seed)
    boards = pool.boards[in_split(pool.solutions, split)]
    return [pre_fill(build_prompt(board, "compact"), tokenizer, max_gen_length) for board in boards]


clues, hard_clues = (args.clues_low, args.clues_high), (args.hard_low, args.hard_high)
training = prepare(args.puzzles, clues, "train", args.seed + 1)
sets = {
    "in": prepare(12 * args.eval_puzzles, clues, "validation", args.seed + 2)[: args.eval_puzzles],
    "transfer": prepare(12 * args.eval_puzzles, hard_clues, "validation", args.seed + 3)[: args.eval_puzzles],
}
config = LladaConfig(
    d_model=args.d_model,
    n_layers=args.n_layers,
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
model = LladaForMaskedLM(config)
print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(training):,} training puzzles")
trainer = SftTrainer(
    model=model,
    args=TrainingArguments(
        output_dir=str(output / "checkpoints"),
        per_device_train_batch_size=args.batch_size,
        max_steps=args.hold_steps + args.anneal_steps,
        learning_rate=args.learning_rate,
        lr_scheduler_type="warmup_stable_decay",
        lr_scheduler_kwargs={
            "num_decay_steps": args.anneal_steps,
            "num_stable_steps": args.hold_steps - args.warmup_steps,
            "decay_type": "linear",
        },
        warmup_steps=args.warmup_steps,
        weight_decay=0.01,
        adam_beta2=0.98,
        max_grad_norm=1.0,
        logging_steps=100,
        save_strategy="steps",
        save_steps=args.eval_steps,
        save_total_limit=1,
        save_only_model=False,
        report_to="none",
        seed=args.seed,
        use_cpu=not torch.cuda.is_available(),
        remove_unused_columns=False,
        logging_nan_inf_filter=False,
        disable_tqdm=None,
    ),
    train_dataset=SftDataset(training, tail_id=tokenizer.eos_token_id, pad_id=tokenizer.pad_token_id),
    callbacks=[CurveCallback(sets, args, tokenizer.pad_token_id), MetricsWriter(output / "training_log.jsonl")],
)
trainer.train()
for folder in (output / "annealed", output / "unannealed"):
    tokenizer.save_pretrained(folder)
model.save_pretrained(output / "annealed")
