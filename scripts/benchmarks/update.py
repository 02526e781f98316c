"""Time and peak memory of an update, lean (`objective_pass`) against naive (`scripts/benchmarks/naive_update.py`).

Both compute the gradient of the same objective on the same roll-outs; the script checks in float64 that they agree.
Contenders take turns within each round, in float32:

    naive       one forward and backward a step, all trajectories, logits and softmax at every response position
    unshared    visits of all steps in one list cut by budget, logits at masked positions only, no state shared
    lean        the same with each distinct state forwarded once

Roll-outs are recorded by the shipped model. Other models, random ones, score the same states, and their own
log-probabilities stand for the old ones. Memory is the exact peak of live tensors, beyond weights, gradients and
roll-out; see `scripts/benchmarks/work.py`.

    python -m scripts.benchmarks.update [--cases shipped wide] [--output_dir runs/benchmark_update]
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from dllm_rl import ObjectiveConfig, PuzzleBatch, Rollout, objective_pass
from llm_rl.core._options import option
from llm_rl.training import (
    USER_ERRORS,
    load_pandas,
    load_pyplot,
    need_file,
    need_model,
    need_reports,
    need_writable,
    parse,
    user_errors,
)
from scripts.benchmarks.naive_update import in_float64, naive_pass, unshared
from scripts.benchmarks.work import ROOT, SHIPPED, Contender, backward, peak_of_update, played, race
from scripts.shared.tiny_llada import tiny_llada
from sudoku_dllm.machine import machine
from sudoku_env import SudokuError, build_prompt, generate, pre_fill, read_prompts

CASES = ("shipped", "wide")
CURVES = {"G": (2, 4, 8, 16, 32), "K": (28, 24, 20, 16, 12), "Q": (1, 2, 4, 8)}
"""Of the memory: trajectories, clues, of which K is the rest, and puzzles."""
MEMORY_MODEL, MEMORY_CLUES = 8192, 20  # its vocabulary; the middle of its curve
MEMORY_BUDGET = {"max_tokens": 208, "max_masked": 40}  # of a pass of the memory curve: all points fill one
MAX_LOGITS = 2**21  # of a timed lean pass, of at least the 40 masked positions of one state
TOLERANCE = 1e-10
"""How far gradients may be apart, as a share of the largest entry, in float64, where rounding leaves 1e-14."""


@dataclass
class BenchmarkArguments:
    """Arguments of `scripts/benchmarks/update.py`."""

    model: str = option(SHIPPED, "Model that plays, and is timed.")
    data: str = option(str(ROOT / "data" / "sudoku6x6_train.jsonl"), "Prompts to time on.")
    cases: list[str] = option(list(CASES), f"Models to time, of {CASES}.")
    position_temperatures: list[float] = option([0.05, 0.4, 1.0], "T_pos: the lower, the more states are shared.")
    tokens_per_step: list[int] = option([1, 4], "Positions that a decision fills.")
    puzzles: int = option(1, "Q of a timed roll-out.")
    num_generations: int = option(8, "G of a timed roll-out.")
    rounds: int = option(3, "Timed rounds, after one that is not counted.")
    vocabulary: int = option(30000, "Vocabulary of the wide model.")
    memory: int = option(5, "Points of each memory curve; 0: memory is not measured.")
    seed: int = option(0, "Random seed of puzzles, models and roll-outs.")
    output_dir: str = option(str(ROOT / "runs" / "benchmark_update"), "Tables and figure.")

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.cases) - set(CASES)):
            raise ValueError(f"unknown cases {unknown}; choose from {CASES}")


(args,) = parse(BenchmarkArguments, description=__doc__)
need_file("data", args.data)
need_model("model", args.model)
need_writable("output_dir", args.output_dir)
need_reports()
pd, plt = load_pandas(), load_pyplot()
with user_errors(*USER_ERRORS, SudokuError):
    prompts = read_prompts(args.data)[: args.puzzles]
torch.set_num_threads(1)
logging.set_verbosity_error()
logging.disable_progress_bar()
folder = Path(args.output_dir)
folder.mkdir(parents=True, exist_ok=True)
tokenizer = AutoTokenizer.from_pretrained(args.model)
player = AutoModelForMaskedLM.from_pretrained(args.model)


def random_model(vocabulary: int) -> PreTrainedModel:
    """A random LLaDA for the shipped tokenizer, with room for more tokens."""
    sizes = {"d_model": 64, "rope_theta": 100.0, "max_sequence_length": 256}
    return tiny_llada(vocabulary, tokenizer.mask_token_id, args.seed, **sizes)


def play(prompts: list[str], num_generations: int, temperature: float, tokens_per_step: int = 1) -> Rollout:
    """A roll-out of the shipped model."""
    batch = PuzzleBatch.collate([pre_fill(p, tokenizer, 40) for p in prompts], pad_id=tokenizer.pad_token_id)
    return played(player, batch, num_generations, temperature, tokens_per_step, seed=args.seed)


def contenders(model: PreTrainedModel, record: Rollout, **budget: Any) -> dict[str, Callable[[], object]]:
    """Name → a call that adds the gradient of J to the model's parameters."""
    common: dict[str, Any] = {"backward": backward, "config": ObjectiveConfig()}
    return {
        "naive": partial(naive_pass, model, record, **common),
        "unshared": partial(objective_pass, model, unshared(record), **common, **budget),
        "lean": partial(objective_pass, model, record, **common, **budget),
    }


def gradient(model: PreTrainedModel, work: Callable[[], object]) -> Tensor:
    """What a contender adds to the gradient, as one vector."""
    model.zero_grad(set_to_none=True)
    work()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


# Time.
times = []
for case in args.cases:
    shipped = case == "shipped"
    model = AutoModelForMaskedLM.from_pretrained(args.model) if shipped else random_model(args.vocabulary)
    model.train()
    budget = {"max_tokens": 2048, "max_masked": max(MAX_LOGITS // model.config.vocab_size, 40)}
    # What sharing does depends on the temperature, not on the model: the others take one.
    temperatures = args.position_temperatures if shipped else args.position_temperatures[:1]
    for temperature, tokens_per_step in product(temperatures, args.tokens_per_step):
        record = play(prompts, args.num_generations, temperature, tokens_per_step)
        scored = objective_pass(model, record, lambda first, second: None, config=ObjectiveConfig(), **budget)
        record = replace(record, old_logprobs=scored.logprobs)
        exact = deepcopy(model).double()
        works = contenders(exact, in_float64(record), **budget)
        reference, lean = gradient(exact, works["naive"]), gradient(exact, works["lean"])
        rates = race({name: Contender(w, 1.0) for name, w in contenders(model, record, **budget).items()}, args.rounds)
        visited = int(record.live.sum())
        times.append(
            {
                "task": f"{case}, T_pos {temperature:g}, {tokens_per_step} a step",
                "parameters": model.num_parameters(),
                "vocabulary": model.config.vocab_size,
                "visited": visited,
                "distinct": len(record.responses),
                "distinct / visited": len(record.responses) / visited,
                **{f"{name} s": 1 / rate for name, rate in rates.items()},
                **{f"{name} / lean": rates["lean"] / rates[name] for name in rates if name != "lean"},
                "gradient error": float((lean - reference).abs().max() / reference.abs().max()),
            }
        )
        if times[-1]["gradient error"] > TOLERANCE:
            raise SystemExit(f"{times[-1]['task']}: the gradients differ by {times[-1]['gradient error']:.1e}")
        time_table = pd.DataFrame(times).set_index("task")
        time_table.to_csv(folder / "update_time.csv")
print(f"Seconds per update, Q = {args.puzzles}, G = {args.num_generations}, medians of {args.rounds}\n{machine()}")
print(time_table.T.to_string(float_format=lambda value: f"{value:,.3g}" if value < 1e4 else f"{value:,.0f}"))

# Memory.
figure, axes = plt.subplots(1, 4 if args.memory else 1, figsize=(19 if args.memory else 6, 4), squeeze=False)
if args.memory:
    model, memory = random_model(MEMORY_MODEL).train(), []
    for curve, value in ((curve, value) for curve, values in CURVES.items() for value in values[: args.memory]):
        point = {"Q": 1, "G": args.num_generations, "K": MEMORY_CLUES} | {curve: value}
        clues = point["K"]
        boards = generate(point["Q"], size=6, clues=(clues, clues), rule="singles", seed=args.seed).boards
        record = play([build_prompt(board, "compact") for board in boards], point["G"], 1.0)
        works = contenders(model, record, **MEMORY_BUDGET)
        labels = {"curve": curve, **point, "K": int(record.decisions[0]), "states": len(record.responses)}
        peaks = {name: peak_of_update(model, works[name]) / 2**20 for name in ("naive", "lean")}
        held = sum(value.nbytes for value in vars(record).values() if isinstance(value, Tensor))
        memory.append({**labels, **peaks, "roll-out": held / 2**20})
        memory_table = pd.DataFrame(memory)
        memory_table.to_csv(folder / "update_memory.csv", index=False)
    print(f"\nPeak memory of an update in MiB, vocabulary {MEMORY_MODEL}, a pass {MEMORY_BUDGET}")
    print(memory_table.to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    names = {"G": "trajectories G", "K": "decisions K", "Q": "puzzles Q"}
    for axis, (curve, label) in zip(axes[0, 1:], names.items(), strict=True):
        part = memory_table[memory_table["curve"] == curve].sort_values(curve)
        part.plot(x=curve, y=["naive", "lean"], marker="o", ax=axis, xlabel=label, ylabel="peak MiB", ylim=(0, None))
time_table[[f"{name} s" for name in rates]].rename(columns=lambda name: name.removesuffix(" s")).plot.bar(
    ax=axes[0, 0], logy=True, rot=15, xlabel="", ylabel="seconds per update (logarithmic)", width=0.8
)
figure.suptitle(f"Update, naive and lean, 6×6, {machine()}", fontsize=9)
figure.tight_layout()
figure.savefig(folder / "update.png", dpi=120)
