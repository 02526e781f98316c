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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers.utils import logging

from dllm_rl import Decoding, ObjectiveConfig, PuzzleBatch, decode, objective_pass
from llm_rl.core._options import option
from llm_rl.training import USER_ERRORS, load_pandas, need_model, need_reports, need_writable, parse, user_errors
from scripts.benchmarks.work import SHIPPED, Contender, backward, played, race
from sudoku_dllm.answers import shortest_answer
from sudoku_dllm.machine import machine
from sudoku_dllm.models import packed_chunks
from sudoku_env import build_prompt, generate

CLUES = {4: (6, 8), 6: (12, 16), 9: (30, 36)}


@dataclass
class Arguments:
    """Arguments of `scripts/benchmarks/roofline.py`."""

    models: list[str] = option([SHIPPED], "Folders of models whose tokenizers are of scripts.shared.small_tokenizer.")
    puzzles: int = option(1000, "Puzzles of a decode.")
    training_puzzles: int = option(4, "Puzzles of a roll-out and its update.")
    num_generations: int = option(8, "Trajectories of each.")
    tokens_per_step: list[int] = option([1, 4], "Positions filled a pass.")
    rounds: int = option(3, "Timed rounds, after one that is not counted.")
    threads: int = option(1, "Threads of torch.")
    seed: int = option(0, "Random seed of puzzles and roll-outs.")
    output_dir: str = option("runs/benchmark_roofline", "Folder of the table.")


def timed(model: nn.Module, work: Callable[[], object]) -> tuple[float, float, int, int]:
    """Seconds of a piece of work, those inside the model's forward passes, and the tokens and number of these."""
    within, tokens, began = [0.0], list[int](), [0.0]

    def before(_: nn.Module, args: Any, kwargs: Any) -> None:
        tokens.append(kwargs["input_ids"].numel())
        began[0] = time.perf_counter()

    def after(*_: Any) -> None:
        within[0] += time.perf_counter() - began[0]

    hooks = model.register_forward_pre_hook(before, with_kwargs=True), model.register_forward_hook(after)
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    for hook in hooks:
        hook.remove()
    return seconds, within[0], sum(tokens), len(tokens)


def product_rate(rows: int, inner: int, columns: int, rounds: int = 7) -> float:
    """Multiplications and additions a second of a product of fp32 matrices `(rows, inner)` and `(inner, columns)`."""
    left, right = torch.randn(rows, inner), torch.randn(inner, columns)
    amount = 2 * rows * inner * columns
    repeats = max(1, int(2e9 // amount))
    return race({"": Contender(lambda: [left @ right for _ in range(repeats)], amount * repeats)}, rounds)[""]


def measure(name: str, model: nn.Module, work: Callable[[], object], rounds: int, limit: float) -> dict[str, Any]:
    """A row of the table for a piece of work."""
    with FlopCounterMode(display=False) as counter:
        work()
    flops = counter.get_total_flops()
    seconds, within, tokens, passes = map(median, zip(*(timed(model, work) for _ in range(rounds)), strict=True))
    return {
        "work": name,
        "seconds": seconds,
        "passes": passes,
        "tokens/s": tokens / seconds,
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
        filled = [shortest_answer(tokenizer, build_prompt(board, "compact"), size, tail=0) for board in boards]
        return PuzzleBatch.collate(filled, pad_id=tokenizer.pad_token_id)

    many, few = problems(args.puzzles), problems(args.training_puzzles)
    shape = (len(few) * args.num_generations * few.length, model.config.d_model)
    for count in args.tokens_per_step:
        step = f"{count} token{'s' if count > 1 else ''} a step"
        yield f"decode, {step}", model, partial(decode, model, many, Decoding("margin", tokens_per_step=count)), shape
        play = partial(played, model, few, args.num_generations, 0.4, count, seed=args.seed, on_error="correct")
        yield f"roll-out, {step}", model, play, shape
        update = partial(objective_pass, model, play(), backward, config=ObjectiveConfig())
        yield f"update, {step}", model, update, shape


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
