"""Time and peak memory of an update, lean (`objective_pass`) against naive (`scripts/benchmarks/naive_update.py`).

Both compute the gradient of the same objective on the same roll-outs; the script checks in float64 that they agree.
Contenders take turns within each round, in float32. Between the two stand versions of the lean update with savings
taken back:

    naive       one forward and backward a step, all trajectories, logits and softmax at every response position
    naive_live  the same without the trajectories that have ended
    batched     visits of all steps in one list cut by budget; logits at every position; no state shared
    masked      the same with logits at masked positions only
    lean        the same with each distinct state forwarded once

Roll-outs are recorded by the shipped model. Other models, random ones, score the same states, and their own
log-probabilities stand for the old ones. Memory is the exact peak of live tensors, beyond weights, gradients and
roll-out; see `scripts/benchmarks/work.py`.

    python -m scripts.benchmarks.update [--cases shipped wide] [--output_dir runs/benchmark_update]
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

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
from scripts.benchmarks.work import Contender, race
from sudoku_dllm.machine import machine
from sudoku_env import SudokuError

ROOT = Path(__file__).resolve().parents[2]
from dllm_rl import (  # noqa: E402
    Decoding,
    ObjectiveConfig,
    PolicyConfig,
    PuzzleBatch,
    Rollout,
    objective_pass,
    rollout,
)
from scripts.benchmarks.naive_update import LogitsEverywhere, in_float64, naive_pass, unshared  # noqa: E402
from scripts.benchmarks.work import peak_of_update  # noqa: E402
from scripts.shared.tiny_llada import tiny_llada  # noqa: E402
from sudoku_env import build_prompt, generate, pre_fill, read_prompts  # noqa: E402

CASES = ("shipped", "wide", "larger")
CONTENDERS = ("naive", "naive_live", "batched", "masked", "lean")
MAX_LOGITS = 2**21  # of a timed lean pass
MEMORY_TOKENS, MEMORY_MASKED = 208, 40  # of a pass of the memory curve: small, so that all points fill one
TOLERANCE = 1e-10
"""How far gradients may be apart, as a share of the largest entry, in float64, where rounding leaves 1e-14."""


@dataclass
class BenchmarkArguments:
    """Arguments of `scripts/benchmarks/update.py`."""

    model: str = field(
        default=str(ROOT / "data" / "models" / "llada-sudoku6x6"), metadata={"help": "Model that plays, and is timed."}
    )
    data: str = field(default=str(ROOT / "data" / "sudoku6x6_train.jsonl"), metadata={"help": "Prompts to time on."})
    cases: list[str] = field(default_factory=lambda: list(CASES), metadata={"help": f"Models to time, of {CASES}."})
    contenders: list[str] = field(
        default_factory=lambda: list(CONTENDERS), metadata={"help": f"What to time, of {CONTENDERS}; lean always is."}
    )
    position_temperatures: list[float] = field(
        default_factory=lambda: [0.05, 0.4, 1.0], metadata={"help": "T_pos: the lower, the more states are shared."}
    )
    tokens_per_step: list[int] = field(
        default_factory=lambda: [1, 4], metadata={"help": "Positions that a decision fills."}
    )
    puzzles: int = field(default=1, metadata={"help": "Q of a timed roll-out."})
    num_generations: int = field(default=8, metadata={"help": "G of a timed roll-out."})
    rounds: int = field(default=3, metadata={"help": "Timed rounds, after one that is not counted."})
    vocabulary: int = field(default=30000, metadata={"help": "Vocabulary of the wide model."})
    width: int = field(default=128, metadata={"help": "d_model of the larger model."})
    max_tokens: int = field(default=2048, metadata={"help": "Largest number of tokens in a lean pass."})
    memory_group_sizes: list[int] = field(
        default_factory=lambda: [2, 4, 8, 16, 32], metadata={"help": "G of the memory curve."}
    )
    memory_clues: list[int] = field(
        default_factory=lambda: [28, 24, 20, 16, 12], metadata={"help": "Clues of the memory curve; K is the rest."}
    )
    memory_puzzles: list[int] = field(default_factory=lambda: [1, 2, 4, 8], metadata={"help": "Q of the memory curve."})
    memory_vocabulary: int = field(default=8192, metadata={"help": "Vocabulary of the model of the memory curve."})
    memory: bool = field(default=True, metadata={"help": "Measure memory as well."})
    seed: int = field(default=0, metadata={"help": "Random seed of puzzles, models and roll-outs."})
    output_dir: str = field(default=str(ROOT / "runs" / "benchmark_update"), metadata={"help": "Tables and figure."})

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.cases) - set(CASES)):
            raise ValueError(f"unknown cases {unknown}; choose from {CASES}")
        if unknown := sorted(set(self.contenders) - set(CONTENDERS)):
            raise ValueError(f"unknown contenders {unknown}; choose from {CONTENDERS}")


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
objective = ObjectiveConfig()


def random_model(vocabulary: int, width: int, layers: int) -> PreTrainedModel:
    """A random LLaDA for the shipped tokenizer, with room for more tokens."""
    sizes = {"d_model": width, "n_layers": layers, "rope_theta": 100.0, "max_sequence_length": 256}
    return tiny_llada(vocabulary, tokenizer.mask_token_id, args.seed, **sizes)


def play(prompts: list[str], num_generations: int, position_temperature: float, tokens_per_step: int = 1) -> Rollout:
    """A roll-out of the shipped model."""
    batch = PuzzleBatch.collate([pre_fill(p, tokenizer, 40) for p in prompts], pad_id=tokenizer.pad_token_id)
    torch.manual_seed(args.seed)
    policy = PolicyConfig(position_temperature)
    how = Decoding("policy", tokens_per_step=tokens_per_step, policy=policy, on_error="end")
    return rollout(player, batch, how, num_generations=num_generations)


def max_masked(vocabulary: int) -> int:
    """Masked positions in a lean pass, at least those of one state."""
    return max(MAX_LOGITS // vocabulary, 40)


def contenders(model: PreTrainedModel, record: Rollout) -> dict[str, Callable[[], object]]:
    """Name → a call that adds the gradient of J to the model's parameters."""

    def backward(first: Tensor, second: Tensor) -> None:
        (first + second).backward()

    alone, everywhere = unshared(record), LogitsEverywhere(model)
    naive = partial(naive_pass, model, record, backward, config=objective)
    lean = partial(
        objective_pass,
        backward=backward,
        config=objective,
        max_tokens=args.max_tokens,
        max_masked=max_masked(model.config.vocab_size),
    )
    return {
        "naive": naive,
        "naive_live": partial(naive, drop_ended=True),
        "batched": partial(lean, everywhere, alone),
        "masked": partial(lean, model, alone),
        "lean": partial(lean, model, record),
    }


def gradient(model: PreTrainedModel, work: Callable[[], object]) -> Tensor:
    """What a contender adds to the gradient, as one vector."""
    model.zero_grad(set_to_none=True)
    work()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


# Time.
models = {
    "shipped": lambda: AutoModelForMaskedLM.from_pretrained(args.model),
    "wide": lambda: random_model(args.vocabulary, 64, 2),
    "larger": lambda: random_model(len(tokenizer), args.width, 6),
}
times = []
for case in args.cases:
    model = models[case]()
    model.train()
    # What sharing does depends on the temperature, not on the model: the others take one.
    temperatures = args.position_temperatures if case == "shipped" else args.position_temperatures[:1]
    for temperature, tokens_per_step in product(temperatures, args.tokens_per_step):
        record = play(prompts, args.num_generations, temperature, tokens_per_step)
        scored = objective_pass(
            model,
            record,
            lambda first, second: None,
            config=objective,
            max_tokens=args.max_tokens,
            max_masked=max_masked(model.config.vocab_size),
        )
        record = replace(record, old_logprobs=scored.logprobs)
        works = contenders(model, record)
        exact = deepcopy(model).double()
        exact_works = contenders(exact, in_float64(record))
        reference, lean = gradient(exact, exact_works["naive"]), gradient(exact, exact_works["lean"])
        timed = [name for name in CONTENDERS if name in (*args.contenders, "lean")]
        rates = race({name: Contender(works[name], 1.0) for name in timed}, args.rounds)
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
def peaks(model: PreTrainedModel, record: Rollout) -> dict[str, float]:
    """Peak memory in MiB of one update, by contender, and what the roll-out itself holds."""

    def backward(first: Tensor, second: Tensor) -> None:
        (first + second).backward()

    naive = partial(naive_pass, model, record, backward, config=objective)
    lean = partial(
        objective_pass,
        model,
        record,
        backward,
        config=objective,
        max_tokens=MEMORY_TOKENS,
        max_masked=MEMORY_MASKED,
    )
    held = sum(value.nbytes for value in vars(record).values() if isinstance(value, Tensor))
    found = {name: peak_of_update(model, work) / 2**20 for name, work in (("naive", naive), ("lean", lean))}
    return {**found, "roll-out": held / 2**20}


figure, axes = plt.subplots(1, 4 if args.memory else 1, figsize=(19 if args.memory else 6, 4), squeeze=False)
if args.memory:
    middle = args.memory_clues[len(args.memory_clues) // 2]
    points = [("G", 1, size, middle) for size in args.memory_group_sizes]
    points += [("K", 1, args.num_generations, clues) for clues in args.memory_clues]
    points += [("Q", count, args.num_generations, middle) for count in args.memory_puzzles]
    memory = []
    model = random_model(args.memory_vocabulary, 64, 2).train()
    for curve, count, size, clues in points:
        boards = generate(count, size=6, clues=(clues, clues), rule="singles", seed=args.seed).boards
        record = play([build_prompt(board, "compact") for board in boards], size, 1.0)
        labels = {"curve": curve, "Q": count, "G": size, "K": int(record.decisions[0]), "clues": clues}
        memory.append({**labels, "states": len(record.responses), **peaks(model, record)})
        memory_table = pd.DataFrame(memory)
        memory_table.to_csv(folder / "update_memory.csv", index=False)
    budgets = f"{MEMORY_TOKENS} tokens and {MEMORY_MASKED} masked positions a pass"
    print(f"\nPeak memory of an update in MiB, vocabulary {args.memory_vocabulary}, {budgets}")
    print(memory_table.to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    names = {"G": "trajectories G", "K": "decisions K", "Q": "puzzles Q"}
    for axis, (curve, label) in zip(axes[0, 1:], names.items(), strict=True):
        part = memory_table[memory_table["curve"] == curve].sort_values(curve)
        part.plot(x=curve, y=["naive", "lean"], marker="o", ax=axis, xlabel=label, ylabel="peak MiB", ylim=(0, None))
time_table[[f"{name} s" for name in timed]].rename(columns=lambda name: name.removesuffix(" s")).plot.bar(
    ax=axes[0, 0], logy=True, rot=15, xlabel="", ylabel="seconds per update (logarithmic)", width=0.8
)
figure.suptitle(f"Update, naive and lean, 6×6, {machine()}", fontsize=9)
figure.tight_layout()
figure.savefig(folder / "update.png", dpi=120)
