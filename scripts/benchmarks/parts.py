"""Speed of pre-filling, roll-outs and training, as medians over repeats on this machine.

Nothing here is a test; compare two versions side by side in one session, and trust ratios more than figures.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from dllm_rl import (
    Decoding,
    LladaConfig,
    LladaForMaskedLM,
    ObjectiveConfig,
    PolicyConfig,
    PuzzleBatch,
    SftDataset,
    SudokuTask,
    masked_diffusion_loss,
    objective_pass,
    rollout,
)
from llm_rl.training import parse
from scripts.sudoku.small_tokenizer import build_small_tokenizer
from sudoku_env import build_prompt, generate, pre_fill


@dataclass
class BenchmarkArguments:
    """Arguments of `scripts/benchmarks/parts.py`."""

    repeats: int = field(default=5, metadata={"help": "Timed repeats of each measurement, after one that is not."})
    num_generations: int = field(default=8, metadata={"help": "G of the roll-out."})
    seed: int = field(default=0, metadata={"help": "Random seed of puzzles, model and roll-outs."})


(args,) = parse(BenchmarkArguments, description=__doc__)
torch.manual_seed(args.seed)


def report(name: str, unit: str, amount: float, work: Callable[[], object]) -> None:
    """Print the median rate, amount per second, of a piece of work."""
    work()
    rates = []
    for _ in range(args.repeats):
        started = time.perf_counter()
        work()
        rates.append(amount / (time.perf_counter() - started))
    print(f"{name:<46} {statistics.median(rates):>14,.0f} {unit}/s   (min {min(rates):,.0f}, max {max(rates):,.0f})")


print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; median of {args.repeats}")
tokenizer = build_small_tokenizer()
made = generate(128, size=6, clues=(14, 18), rule="singles", seed=args.seed)
prompts = [build_prompt(board, "compact") for board in made.boards]
report("pre_fill, small tokenizer", "prompts", len(prompts), lambda: [pre_fill(p, tokenizer, 40) for p in prompts])
puzzles = [pre_fill(prompt, tokenizer, 40) for prompt in prompts]
model = LladaForMaskedLM(
    LladaConfig(
        d_model=64,
        n_layers=4,
        n_heads=2,
        mlp_hidden_size=128,
        rope_theta=100.0,
        vocab_size=len(tokenizer),
        mask_token_id=tokenizer.mask_token_id,
    )
)
task = SudokuTask(pad_id=tokenizer.pad_token_id, tail_id=tokenizer.eos_token_id)
data = SftDataset(task.batch(puzzles))
ids, maskable = data.input_ids.long(), data.maskable
report(
    "masked-diffusion SFT, forward and backward",
    "sequences",
    len(ids),
    lambda: masked_diffusion_loss(model, ids, maskable, tokenizer.mask_token_id).backward(),
)
batch = PuzzleBatch.collate(puzzles[:16], pad_id=tokenizer.pad_token_id)
how = Decoding("policy", policy=PolicyConfig(position_temperature=0.4), on_error="end")
record = rollout(model, batch, how, num_generations=args.num_generations)
print(f"roll-out: {len(record.responses)} distinct of {int(record.live.sum())} visited states")
report(
    "roll-out",
    "states",
    int(record.live.sum()),
    lambda: rollout(model, batch, how, num_generations=args.num_generations),
)
report(
    "update on a roll-out",
    "states",
    int(record.live.sum()),
    lambda: objective_pass(model, record, lambda one, other: (-(one + other)).backward(), config=ObjectiveConfig()),
)
