"""How far decodes, roll-outs and updates are from what their multiplications cost on this machine.

Two numbers are measured first, on as many threads as `--threads`: the multiplications a second of a large product of
fp32 matrices, which is the machine's limit, and those of products of the model's own shapes, as many rows as a pass
has tokens. Then, for each model, a decode of many puzzles, a roll-out and an update: tokens a second, multiplications
a second (counted by `torch.utils.flop_counter`, both of a multiply-add), their share of the limit, and the time of all
against that spent inside the model's forward passes. What is not inside them is the choice of positions, the rules,
and Python.

    python -m scripts.benchmarks.roofline [--models data/models/llada-sudoku6x6 …] [--puzzles 1000]
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers.utils import logging

import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl import Decoding, ObjectiveConfig, PolicyConfig, PuzzleBatch, decode, objective_pass, rollout
from llm_rl.training import USER_ERRORS, load_pandas, need_model, need_reports, need_writable, parse, user_errors
from sudoku_dllm.answers import shortest_answer
from sudoku_dllm.machine import machine
from sudoku_dllm.models import packed_chunks
from sudoku_env import build_prompt, generate

ROOT = Path(__file__).resolve().parents[2]
CLUES = {4: (6, 8), 6: (12, 16), 9: (30, 36)}


@dataclass
class Arguments:
    """Arguments of `scripts/benchmarks/roofline.py`."""

    models: list[str] = field(
        default_factory=lambda: [str(ROOT / "data" / "models" / "llada-sudoku6x6")],
        metadata={"help": "Folders of models whose tokenizers are of scripts.shared.small_tokenizer."},
    )
    puzzles: int = field(default=1000, metadata={"help": "Puzzles of a decode."})
    training_puzzles: int = field(default=4, metadata={"help": "Puzzles of a roll-out and its update."})
    num_generations: int = field(default=8, metadata={"help": "Trajectories of each."})
    tokens_per_step: list[int] = field(default_factory=lambda: [1, 4], metadata={"help": "Positions filled a pass."})
    rounds: int = field(default=3, metadata={"help": "Timed rounds, after one that is not counted."})
    threads: int = field(default=1, metadata={"help": "Threads of torch."})
    seed: int = field(default=0, metadata={"help": "Random seed of puzzles and roll-outs."})
    output_dir: str = field(default="runs/benchmark_roofline", metadata={"help": "Folder of the table."})


class Inside(NamedTuple):
    """What happened inside a model's forward passes: seconds, tokens and passes."""

    seconds: float
    tokens: int
    passes: int


@contextmanager
def watched(model: nn.Module) -> Iterator[Callable[[], Inside]]:
    """Time and tokens of the forward passes within."""
    seen, began = [0.0, 0, 0], [0.0]

    def before(_: nn.Module, args: Any, kwargs: Any) -> None:
        seen[1] += kwargs["input_ids"].numel()
        seen[2] += 1
        began[0] = time.perf_counter()

    def after(*_: Any) -> None:
        seen[0] += time.perf_counter() - began[0]

    hooks = [
        model.register_forward_pre_hook(before, with_kwargs=True),
        model.register_forward_hook(after, with_kwargs=False),
    ]
    try:
        yield lambda: Inside(seen[0], int(seen[1]), int(seen[2]))
    finally:
        for hook in hooks:
            hook.remove()


def product_rate(rows: int, inner: int, columns: int, rounds: int = 7) -> float:
    """Multiplications and additions a second of a product of fp32 matrices `(rows, inner)` and `(inner, columns)`."""
    left, right = torch.randn(rows, inner), torch.randn(inner, columns)
    amount = 2 * rows * inner * columns
    repeats = max(1, int(2e9 // amount))
    times = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        for _ in range(repeats):
            left @ right
        times.append((time.perf_counter() - started) / repeats)
    return amount / median(times[1:])


def measure(name: str, model: nn.Module, work: Callable[[], object], rounds: int, limit: float) -> dict[str, Any]:
    """A row of the table for a piece of work."""
    with FlopCounterMode(display=False) as counter:
        work()
    flops = counter.get_total_flops()
    whole, inside = [], []
    for _ in range(rounds):
        with watched(model) as seen:
            started = time.perf_counter()
            work()
            whole.append(time.perf_counter() - started)
            inside.append(seen())
    seconds, within = median(whole), median(one.seconds for one in inside)
    return {
        "work": name,
        "seconds": seconds,
        "passes": inside[0].passes,
        "tokens/s": inside[0].tokens / seconds,
        "GFLOP/s": flops / seconds / 1e9,
        "% of the limit": 100 * flops / seconds / limit,
        "time / forward passes": seconds / within,
    }


def works(folder: str, args: Arguments) -> Iterator[tuple[str, nn.Module, Callable[[], object], tuple[int, int]]]:
    """Name, model, work, and the rows and width of the model's products, of all that is measured on a model."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder)
    size, _ = packed_chunks(tokenizer)

    def problems(count: int) -> PuzzleBatch:
        boards = generate(count, size=size, clues=CLUES[size], rule=None, seed=args.seed).boards
        prompts = [build_prompt(board, "compact") for board in boards]
        filled = [shortest_answer(tokenizer, prompt, size, tail=0) for prompt in prompts]
        return PuzzleBatch.collate(filled, pad_id=tokenizer.pad_token_id)

    many, few = problems(args.puzzles), problems(args.training_puzzles)
    shape = (len(few) * args.num_generations * few.length, model.config.d_model)
    for count in args.tokens_per_step:
        step = f"{count} token{'s' if count > 1 else ''} a step"
        yield f"decode, {step}", model, partial(decode, model, many, Decoding("margin", tokens_per_step=count)), shape
        policy = PolicyConfig(position_temperature=0.4)
        how = Decoding("policy", tokens_per_step=count, policy=policy, on_error="correct")
        play = partial(rollout, model, few, how, num_generations=args.num_generations)
        yield f"roll-out, {step}", model, partial(seeded, play, args.seed), shape
        record = seeded(play, args.seed)
        update = partial(
            objective_pass,
            model,
            record,
            lambda one, other: (-(one + other)).backward(),
            config=ObjectiveConfig(),
        )
        yield f"update, {step}", model, update, shape


def seeded(work: Callable[..., Any], seed: int) -> Any:
    """The work with a generator of its own."""
    return work(generator=torch.Generator().manual_seed(seed))


def main() -> None:
    """Measure, print and write."""
    (args,) = parse(Arguments, description=__doc__)
    for folder in args.models:
        need_model("models", folder)
    need_writable("output_dir", args.output_dir)
    need_reports()
    torch.set_num_threads(args.threads)
    logging.disable_progress_bar()
    limit = product_rate(2048, 2048, 2048)
    print(f"{machine()}, {args.threads} thread(s) of torch {torch.__version__}")
    print(f"limit: {limit / 1e9:.1f} GFLOP/s, products of 2048 × 2048 × 2048 in fp32\n")
    rows = []
    with user_errors(*USER_ERRORS):
        for folder in args.models:
            for name, model, work, (tokens, width) in works(folder, args):
                own = product_rate(tokens, width, width)
                row = measure(name, model, work, args.rounds, limit)
                rows.append({"model": Path(folder).name, **row, "own shapes GFLOP/s": own / 1e9})
    table = load_pandas().DataFrame(rows)
    Path(args.output_dir).mkdir(parents=True, exist_ok=True)
    table.to_csv(Path(args.output_dir) / "roofline.csv", index=False)
    print(table.to_string(index=False, float_format=lambda value: f"{value:,.2f}" if value < 100 else f"{value:,.0f}"))


if __name__ == "__main__":
    main()
