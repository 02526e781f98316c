"""How much of each term's gradient is signal: half-batch cosines, and where its squared length comes from.

For each position temperature and number of trajectories, several batches of puzzles are drawn and rolled out twice. The
cosine between a term's gradients on two halves of a batch's puzzles is averaged, and the squared gradient of a puzzle
is split into the noise of its roll-out (Monte Carlo), what differs between puzzles, and what they have in common, with
jackknife errors (`scripts.sudoku.gradient_shares`). Values are the mean returns of these roll-outs by cells left.
Prints a table and writes it as CSV.

    python -m scripts.sudoku.gradient_cosines --model data/models/llada-sudoku6x6-converged --trajectories 32 256
"""

from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers.utils import logging

import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl import Decoding, ObjectiveConfig, PolicyConfig, PuzzleBatch, Rollout, rollout
from dllm_rl.terms import CellValues, ScoredStates, Values, totals_by_masked
from llm_rl.training import (
    USER_ERRORS,
    fail,
    load_pandas,
    need_file,
    need_model,
    need_reports,
    need_writable,
    parse,
    user_errors,
)
from scripts.sudoku.gradient_shares import gradient_shares, objective_gradient
from sudoku_dllm.machine import machine
from sudoku_env import SudokuError, pre_fill, read_prompts

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Arguments:
    """Arguments of `gradient_cosines.py`."""

    model: str = field(
        default=str(ROOT / "data" / "models" / "llada-sudoku6x6-converged"),
        metadata={"help": "Folder of model and tokenizer."},
    )
    data: str = field(
        default=str(ROOT / "data" / "sudoku6x6_train.jsonl"), metadata={"help": "Prompts, as for training."}
    )
    max_gen_length: int = field(default=40, metadata={"help": "Response length in tokens."})
    num_generations: int = field(default=8, metadata={"help": "G."})
    trajectories: list[int] = field(
        default_factory=lambda: [32, 128, 512], metadata={"help": "Trajectories of a roll-out; multiples of 2 G."}
    )
    position_temperatures: list[float] = field(
        default_factory=lambda: [0.05, 0.4, 1.0, 3.0], metadata={"help": "T_pos."}
    )
    gamma: float = field(default=0.95, metadata={"help": "Discount factor."})
    repeats: int = field(default=3, metadata={"help": "Batches of puzzles for each row, each rolled out twice."})
    terms: list[str] = field(default_factory=list, metadata={"help": "Names of the rows to measure; none: all."})
    seed: int = field(default=0, metadata={"help": "Random seed of puzzles and roll-outs."})
    output_dir: str = field(default="runs/gradient_cosines", metadata={"help": "Folder of the CSV."})


(args,) = parse(Arguments, description=__doc__)
if wrong := [count for count in args.trajectories if count < 1 or count % (2 * args.num_generations)]:
    fail(f"trajectories {wrong} are no multiples of 2 × num_generations={args.num_generations}")
if args.repeats * min(args.trajectories) < 3 * args.num_generations:
    fail(f"repeats={args.repeats} of {min(args.trajectories)} trajectories are fewer than three puzzles; raise repeats")
sampled = ObjectiveConfig(
    gamma=args.gamma, advantage_baseline="leave_one_out", advantage_scale="none", reduction="mean", f_weight=0.0
)
closed = ObjectiveConfig(gamma=args.gamma, objective="closed", reduction="mean")
f = replace(closed, policy_weight=0.0)
TERMS = {
    "first term, sampled": sampled,
    "first term, closed": replace(closed, f_weight=0.0),
    "f": f,
    "f, placebo": f,
    "log f": replace(f, f_form="log"),
    "both, closed": closed,
    "log both, closed": replace(closed, f_form="log"),
    "log Z": replace(closed, f_weight=0.0, f_form="log"),
    "log Z, no tail": replace(closed, f_weight=0.0, f_form="log"),
    "masked CE": replace(f, f_weight=0.0, ce_weight=1.0),
}

if unknown := set(args.terms) - set(TERMS):
    fail(f"--terms {sorted(unknown)} are unknown; choose among {list(TERMS)}")
need_file("data", args.data)
need_model("model", args.model)
need_writable("output_dir", args.output_dir)
need_reports()
with user_errors(*USER_ERRORS, SudokuError):
    prompts = read_prompts(args.data)
logging.disable_progress_bar()
torch.set_num_threads(1)
with user_errors(OSError, ValueError):
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForMaskedLM.from_pretrained(args.model).float().train()
random = np.random.default_rng(args.seed)
generator = torch.Generator().manual_seed(args.seed)


class Survival(Values):
    """Every state is worth 1, so that the first term is Z(s), the probability that the next decision is right.

    Args:
        tail: What a state is worth that follows a decision outside the map: 1, or 0, as if the tail were not there.
    """

    def __init__(self, tail: float) -> None:
        self.tail = tail

    def at(self, states: ScoredStates) -> Tensor:
        """See `Values.at`."""
        return torch.where(states.problems.judged[states.of], 1.0, self.tail)


def gradients(term: str, record: Rollout, values: Values) -> Tensor:
    """The gradient of each puzzle in a roll-out, fp32 `(Q, P)`."""
    if term == "f, placebo":  # every open cell counts as definite
        open_ = record.responses == record.problems.mask_id
        record = replace(record, definite=open_ & record.problems.judged[record.problem_of])
    if term.startswith("log Z"):
        values = Survival(1.0 if term == "log Z" else 0.0)
    parts = [record.select(torch.tensor([puzzle])) for puzzle in range(len(record.problems))]
    return torch.stack([objective_gradient(model, part, config=TERMS[term], values=values) for part in parts])


rows = []
for temperature, count in product(args.position_temperatures, args.trajectories):
    # Batches of puzzles, each rolled out twice.
    batches = []
    for _ in range(args.repeats):
        chosen = random.choice(len(prompts), count // args.num_generations, replace=False)
        puzzles = [pre_fill(prompts[number], tokenizer, args.max_gen_length) for number in chosen]
        batch = PuzzleBatch.collate(puzzles, pad_id=tokenizer.pad_token_id)
        how = Decoding("policy", policy=PolicyConfig(temperature), on_error="end")
        options = {"num_generations": args.num_generations, "generator": generator}
        batches.append([rollout(model, batch, how, **options) for _ in range(2)])
    records = [record for pair in batches for record in pair]
    values = CellValues(0.0, args.max_gen_length)
    totals = [totals_by_masked(record, args.gamma, args.max_gen_length + 1) for record in records]
    values.update(torch.stack(totals).sum(0))
    distinct = sum(len(record.responses) for record in records) / sum(int(record.live.sum()) for record in records)

    # Each term's cosines between halves of the puzzles, and its shares over all puzzles.
    for term in args.terms or TERMS:
        first, second = (
            torch.stack([gradients(term, pair[number], values) for pair in batches]) for number in range(2)
        )  # (repeats, Q, P) each
        both = torch.cat([first, second])
        cosines = torch.nn.functional.cosine_similarity(both[:, ::2].mean(1), both[:, 1::2].mean(1))
        shares = gradient_shares(first.flatten(0, 1), second.flatten(0, 1))
        percent = {
            name: f"{100 * value:.1f} ± {100 * error:.1f}"
            for name, value, error in zip(
                ("Monte Carlo %", "between puzzles %", "common %"), shares[:3], shares.errors, strict=True
            )
        }
        rows.append(
            {
                "T_pos": temperature,
                "trajectories": count,
                "distinct / visited": round(distinct, 3),
                "term": term,
                "cosine": f"{float(cosines.mean()):.2f} ± {float(cosines.std(correction=0)):.2f}",
                **percent,
            }
        )
        print(rows[-1], flush=True)
folder = Path(args.output_dir)
folder.mkdir(parents=True, exist_ok=True)
table = load_pandas().DataFrame(rows)
table.to_csv(folder / "gradient_cosines.csv", index=False)
parameters = sum(parameter.numel() for parameter in model.parameters())
print(f"\nGradients of {parameters:,} parameters, {args.repeats} batches a row, each rolled out twice, {machine()}")
print(table.to_string(index=False))
