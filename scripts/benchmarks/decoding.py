"""Compare decoding strategies of one model: what they get right, how far they follow logic, and what they cost.

Decodes the same puzzles by each strategy with each number of tokens per step, each threshold and each entropy bound,
and with each number of tokens per step so that tokens are taken back.
Prints two tables and writes them as CSV, with a heat map of the mean order, a GIF of one decode, and `report.html`: the
tables and ten decodes to be played, two failures among them.

    python -m scripts.benchmarks.decoding --tokens_per_step 1 2 4
    python -m scripts.benchmarks.decoding --strategies margin definite_first --threshold 2 4 8
    python -m scripts.benchmarks.decoding --strategies margin entropy --entropy_bound 0.01 0.1 1
    python -m scripts.benchmarks.decoding --strategies margin --remask_threshold 0.1 0.5 --edit_threshold 0.9
"""

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import transformers
from transformers import AutoTokenizer
from transformers.utils import logging as transformers_logging

import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl import (
    STRATEGIES,
    Decode,
    Decoding,
    EntropyBound,
    Evaluation,
    PolicyConfig,
    PuzzleBatch,
    TakeBack,
    Threshold,
    as_policy_model,
    decode,
    get_strategy,
)
from dllm_rl.decoding import paired_difference, semi_autoregressive
from dllm_rl.sudoku import assess, known_mean, mean_order, rank_correlation
from llm_rl.core._options import option
from llm_rl.training import load_pandas, need_file, need_model, need_reports, need_writable, parse, user_errors
from llm_rl.training.storage import write_text_whole
from scripts.benchmarks.order_plot import plot_order
from scripts.benchmarks.work import ROOT, SHIPPED
from sudoku_dllm.machine import machine, versions
from sudoku_dllm.run_page.page import PAGE, Page, Replay, Table
from sudoku_dllm.run_page.replays import chosen, replay_in
from sudoku_env import decode_gif, pre_fill, read_prompts
from sudoku_env.order import ladder_steps, tier_shares

LIMITS = {"tokens_per_step": "Int64", "threshold": "Float64", "entropy_bound": "Float64"}
"""What limits the positions of a step, one at a time: options and columns of the tables, with their types."""

TAKING_BACK = {"remask_threshold": "Float64", "remask_count": "Int64", "edit_threshold": "Float64"}
"""What takes tokens back, one at a time: arguments of `TakeBack` and columns of the tables, with types."""


@dataclass
class Arguments:
    """Arguments of `scripts/benchmarks/decoding.py`."""

    model: str = option(SHIPPED, "Folder of model and tokenizer.")
    data: str = option(
        str(ROOT / "data" / "sudoku6x6_test.jsonl"),
        "Prompts: .jsonl, .csv or .parquet with a `prompt` column; or .txt, a packed puzzle a line, which "
        "are put to the model in the compact wording.",
    )
    output_dir: str = option(str(ROOT / "runs" / "benchmark_decoding"), "Folder to write to.")
    strategies: list[str] = option(
        sorted(STRATEGIES, key=lambda name: name != "margin"), f"Some of {', '.join(STRATEGIES)}."
    )
    tokens_per_step: list[int] = option([1, 2, 4], "Positions filled from one forward pass.")
    threshold: list[float] = option(
        [],
        "Also fill all positions whose score is at least this, on the scale of the strategy's score; "
        "strategies that draw positions, or whose scores all or none reach it, are left out.",
    )
    entropy_bound: list[float] = option(
        [],
        "Also fill the best positions as long as their entropies, the largest left out, add up to at most "
        "so many nats; strategies that draw positions are left out.",
    )
    remask_threshold: list[float] = option(
        [], "Also mask tokens again whose probability has fallen below this, with each tokens_per_step."
    )
    remask_count: list[int] = option(
        [], "Also mask the so many least probable tokens again in every pass, with each tokens_per_step."
    )
    edit_threshold: list[float] = option(
        [], "Also replace tokens where another one's probability is above this, likewise."
    )
    max_passes: int = option(60, "Most forward passes of a decode that takes tokens back.")
    block_length: int = option(8, "Positions in a semi-autoregressive block.")
    max_puzzles: int = option(100, "Decode the first so many prompts; 0 is all.")
    max_gen_length: int = option(40, "Response length in tokens.")
    auto_class: Literal["AutoModelForMaskedLM", "AutoModelForCausalLM", "AutoModel"] = option(
        "AutoModelForMaskedLM", "Class of transformers that loads the model."
    )
    shifted_logits: bool = option(False, "The logits at a position are those of the next token.")
    position_temperature: float = option(0.05, "T_pos, of strategy policy.")
    token_temperature: float = option(0.6, "T_tok, of strategy policy.")
    max_tokens: int = option(65536, "Largest number of tokens in one forward pass.")
    seed: int = option(0, "Random seed of the strategies that draw, and of the floor.")
    device: str = field(
        default_factory=lambda: "cuda" if torch.cuda.is_available() else "cpu", metadata={"help": "Where to run."}
    )


def fitting(**options: Any) -> dict[str, Decoding]:
    """How each strategy decodes with some options, by name, those left out that they do not fit.

    Raises:
        ValueError: They fit none.
    """
    found, refused = dict[str, Decoding](), list[ValueError]()
    for name, strategy in strategies.items():
        try:
            found[name] = Decoding(strategy, policy=policy, **options)
        except ValueError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return found


(args,) = parse(Arguments, description=__doc__)
need_file("data", args.data)
need_model("model", args.model)
need_writable("output_dir", args.output_dir)
need_reports()
with user_errors(RuntimeError):
    torch.empty(0, device=args.device)
transformers_logging.set_verbosity_error()
transformers_logging.disable_progress_bar()
with user_errors(ValueError):
    strategies = {
        name: semi_autoregressive(args.block_length) if name == "semi_autoregressive" else get_strategy(name)
        for name in args.strategies
    }
    policy = PolicyConfig(args.position_temperature, args.token_temperature)
    counts = sorted(set(args.tokens_per_step))
    limits: list[Threshold | EntropyBound] = [
        *(Threshold(value) for value in sorted(set(args.threshold))),
        *(EntropyBound(value) for value in sorted(set(args.entropy_bound))),
    ]
    taking_back = [
        TakeBack(**{"max_passes": args.max_passes, name: value})
        for name in TAKING_BACK
        for value in sorted(set(getattr(args, name)))
    ]
    settings = [
        *(fitting(tokens_per_step=count) for count in counts),
        *(fitting(tokens_per_step=None, limit=limit) for limit in limits),
        *(fitting(tokens_per_step=count, take_back=rule) for count in counts for rule in taking_back),
    ]

with user_errors(OSError, ValueError):
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    prompts = read_prompts(args.data)[: args.max_puzzles or None]
    prefilled = [pre_fill(prompt, tokenizer, args.max_gen_length) for prompt in prompts]
with user_errors(OSError, ValueError):
    model = getattr(transformers, args.auto_class).from_pretrained(args.model)
model = as_policy_model(model, shifted=args.shifted_logits).to(args.device)
puzzles = PuzzleBatch.collate(prefilled, pad_id=tokenizer.pad_token_id)
boards = np.stack([puzzle.layout.puzzle for puzzle in prefilled])
solutions = np.stack([puzzle.layout.solution for puzzle in prefilled])
by_step = ladder_steps(boards)


def run(how: Decoding) -> tuple[Decode, float]:
    """Decode all puzzles; the seconds it took."""
    generator = torch.Generator().manual_seed(args.seed)
    started = time.perf_counter()
    record = decode(model, puzzles, how, generator=generator, max_tokens=args.max_tokens)
    return record, time.perf_counter() - started


folder = Path(args.output_dir)
folder.mkdir(parents=True, exist_ok=True)
rows, tiers, orders = [], [], {"rule ladder": mean_order(by_step)}
replays: list[Replay] = []
run(settings[len(counts) - 1][args.strategies[0]])  # not timed: it pays for what is cached later
for setting in settings:
    reference: Evaluation | None = None
    for name, how in setting.items():
        record, seconds = run(how)
        found = assess(record, seed=args.seed)
        order, summary = found.order, found.summary()
        reference = reference or found.evaluation
        difference, half_width = paired_difference(found.evaluation, reference)
        label: dict[str, Any] = {
            "strategy": name,
            "tokens_per_step": how.tokens_per_step,
            "threshold": how.limit.score if isinstance(how.limit, Threshold) else None,
            "entropy_bound": how.limit.nats if isinstance(how.limit, EntropyBound) else None,
            **{each: getattr(how.take_back, each, None) for each in TAKING_BACK},
        }
        rows.append(
            {
                **label,
                **found.evaluation.summary(),
                f"solved - {args.strategies[0]}": difference,
                "difference_ci95": half_width,
                "random_floor": summary["random_floor"],
                "rank_corr_steps": float(known_mean(rank_correlation(order.cell_steps, by_step))),
                "rank_corr_rounds": summary["rank_correlation"],
                "seconds": seconds,
            }
        )
        by_kind = {"greedy": order.greedy_tiers, "chosen": order.chosen_tiers, "random floor": found.floor_tiers}
        tiers += [{**label, "of": of, "count": len(each), **tier_shares(each)} for of, each in by_kind.items()]
        if setting is settings[0]:
            orders[name] = mean_order(order.cell_steps)
            if name == args.strategies[0]:
                decode_gif(folder / "decode.gif", puzzles.read_states(record.states_of(0)), solutions[0])
                replays = [replay_in(puzzles, record, row, name) for row in chosen(found.evaluation.solved.tolist())]

pd = load_pandas()
types = LIMITS | TAKING_BACK
labels = ["strategy", *types]
table = pd.DataFrame(rows).astype(types).set_index(labels)
by_tier = pd.DataFrame(tiers).astype(types).set_index([*labels, "of"])
for name, frame in (("table", table), ("tiers", by_tier)):
    write_text_whole(folder / f"{name}.csv", frame.to_csv())
plot_order(orders, folder / "order.png")
used = by_tier.loc[:, (by_tier > 0).any()]
print(f"\n{args.data}: {len(prefilled)} puzzles, seed {args.seed}\n{machine()}\n")
print(table.to_string(float_format="{:.3f}".format))
print(f"\nEasiest rules that make a cell definite, shares:\n\n{used.to_string(float_format='{:.3f}'.format)}")
print(f"\n{folder}: table.csv, tiers.csv, order.png, decode.gif")


def cell(value: Any) -> str:
    """A value in a table of the page."""
    if pd.isna(value):
        return ""
    return f"{value:.{3 if abs(value) < 10 else 1}f}" if isinstance(value, float) else str(value)


def shown_as(title: str, frame: Any, note: str) -> Table:
    """A table of the page; columns that say nothing are left out."""
    cells = frame.reset_index().dropna(axis="columns", how="all")
    return Table(title, list(cells), [[cell(value) for value in row] for row in cells.itertuples(index=False)], note)


page = Page(
    title=f"{folder.name}: decoding {Path(args.data).name}",
    facts={
        "model": args.model,
        "puzzles": f"{len(prefilled)} of {Path(args.data).name}",
        "machine": machine(),
        "seed": str(args.seed),
        "decoding": f"{sum(row['seconds'] for row in rows):.1f} s in all",
        "versions": versions(),
    },
    arguments=asdict(args),
    tables=[
        shown_as("Strategies", table, "Intervals are 95 % over puzzles, paired where they are of differences."),
        shown_as(
            "Easiest rules that make a cell definite, shares",
            used,
            "Of the surest cells (greedy), of those filled (chosen), and of cells drawn at random (random floor).",
        ),
    ],
    replays=replays,
)
print(f"Report with replays, for a browser: {page.write(folder / PAGE)}")
