"""Share of whole grids that a model solves, by set, blanks, clues and hardest rule, and in how many forward passes.

Puzzles are drawn anew, and read from files on request; those alone count that have one solution and whose grid belongs
to the test split, so that no training of this project saw an image of it. Decodes by largest margin, one token a step
and by thresholds. Prints a table for each grouping and writes the outcome of each puzzle to `outcomes.csv`.

    python -m scripts.benchmarks.grids --model runs/sudoku9x9_cpu/annealed --data folder/17clue_49158.txt
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, AutoTokenizer

import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl import STRATEGIES, Decoding, SudokuTask, Threshold, evaluate
from llm_rl.core._options import option
from llm_rl.training import fail, load_pandas, need_file, need_model, need_reports, need_writable, parse, user_errors
from scripts.shared.of_split import first_of_split, packed_of_split
from sudoku_dllm.machine import machine
from sudoku_env import Board, SudokuError, build_prompt, generate, pre_fill, pre_fill_boards, read_puzzles
from sudoku_env.logic import RULE_GROUPS, rule_index
from sudoku_env.order import TIERS
from sudoku_env.rating import rate_batch

BLANKS = {"≤ 39 blanks": (0, 39), "40–49 blanks": (40, 49), "50–59 blanks": (50, 59), "60–69 blanks": (60, 69)}
CLUES = {"≥ 40 clues": (40, 81), "30–39 clues": (30, 39), "< 30 clues": (0, 29)}
DRAWN = {"drawn, 42–61 clues": (42, 61), "drawn, 32–41 clues": (32, 41), "drawn, 22–31 clues": (22, 31)}
"""Sets of drawn puzzles, one for each of the first three bins by blanks, and the numbers of clues."""


@dataclass
class Arguments:
    """Arguments of `scripts/benchmarks/grids.py`."""

    model: str = field(metadata={"help": "Folder of a 9×9 model and its tokenizer, e.g. a checkpoint."})
    data: list[str] = option(
        [], "Files of 9×9 puzzles: .txt, a packed puzzle a line, or .csv with puzzle and solution."
    )
    drawn: int = option(100, "Puzzles to draw for each of the first three bins by blanks.")
    max_puzzles: int = option(100, "First so many puzzles of a file (of a tier in a .csv).")
    strategy: str = option("margin", f"Decoding strategy, one of {', '.join(STRATEGIES)}.")
    threshold: list[float] = option(
        [4.0], "Also fill all positions whose score is at least this, on the scale of the strategy's score."
    )
    output_dir: str = option("runs/benchmark_grids", "Folder to write to.")
    seed: int = option(0, "Random seed of the puzzles.")
    device: str = field(
        default_factory=lambda: "cuda" if torch.cuda.is_available() else "cpu", metadata={"help": "Where to run."}
    )


def drawn_sets(count: int, seed: int) -> dict[str, Board]:
    """Puzzles of any difficulty for each of `DRAWN`."""
    sets = {}
    for number, (name, clues) in enumerate(DRAWN.items()):
        drawn = (
            generate(count, size=9, clues=clues, seed=10**6 * (seed + 1) + number, first=first)
            for first in range(0, 100 * count, max(count, 1))
        )
        sets[name] = first_of_split(((part.boards, part.solutions) for part in drawn), "test", count)
    return sets


def file_sets(path: str, count: int) -> dict[str, Board]:
    """Puzzles of a file; those of a .csv by tier."""
    if not path.endswith(".csv"):
        return {Path(path).stem: packed_of_split(path, "test", count)}
    puzzles = read_puzzles(path)
    tiers = tiers_of(puzzles.boards)
    sets = {}
    for tier in [name for name in TIERS if (tiers == name).any()]:
        of_tier = tiers == tier
        parts = iter([(puzzles.boards[of_tier], puzzles.solutions[of_tier])])
        sets[f"{Path(path).stem}, {tier}"] = first_of_split(parts, "test", count)
    return sets


def tiers_of(boards: Board) -> NDArray[np.str_]:
    """The group of the hardest rule that each puzzle needs, one of `TIERS`, `(N,)`."""
    hardest, _ = rate_batch(boards)
    return np.array(TIERS)[np.searchsorted([rule_index(group) for group in RULE_GROUPS], hardest)]


def bins_of(values: NDArray[np.int64], bins: dict[str, tuple[int, int]]) -> list[str]:
    """The name of the bin of each value, "" outside all of them."""
    return [next((name for name, (low, high) in bins.items() if low <= value <= high), "") for value in values]


def main() -> None:
    """Decode all sets and print the tables."""
    (args,) = parse(Arguments, description=__doc__)
    need_model("model", args.model)
    for path in args.data:
        need_file("data", path)
    need_writable("output_dir", args.output_dir)
    need_reports()
    with user_errors(OSError, ValueError, SudokuError):
        decodings = {"one token a step": Decoding(args.strategy, on_error="end")}
        for value in args.threshold:
            how = Decoding(args.strategy, tokens_per_step=None, limit=Threshold(value), on_error="end")
            decodings[f"threshold {value:g}"] = how
        tokenizer = AutoTokenizer.from_pretrained(args.model)
        model = AutoModelForMaskedLM.from_pretrained(args.model).to(args.device)
        sets = drawn_sets(args.drawn, args.seed) if args.drawn else {}
        for path in args.data:
            sets |= file_sets(path, args.max_puzzles)
    sets = {name: boards for name, boards in sets.items() if len(boards)}
    if not sets:
        fail("there is no puzzle whose grid belongs to the test split; give --drawn or more --data")
    boards = np.concatenate(list(sets.values()))
    clues = (boards > 0).sum(1)
    labels = {
        "set": [name for name, each in sets.items() for _ in each],
        "blanks": bins_of(81 - clues, BLANKS),
        "clues": bins_of(clues, CLUES),
        "tier": tiers_of(boards).tolist(),
    }
    with user_errors(SudokuError):
        length = pre_fill(build_prompt(boards[0], "compact"), tokenizer, 4 * 81).map_range[1]
        puzzles = pre_fill_boards(boards, tokenizer, length, template="compact")
    task = SudokuTask(tokenizer.pad_token_id)

    pd = load_pandas()
    frames = []
    for name, how in decodings.items():
        with user_errors(ValueError):
            found = evaluate(model, puzzles, task, how)
        outcome = {"solved": found.solved, "passes": np.where(found.solved, found.forward_passes, np.nan)}
        filled = {"before_error": found.cells_before_error / found.blanks}
        frames.append(pd.DataFrame({"decoding": name, **labels, **outcome, **filled}))
    outcomes = pd.concat(frames)
    folder = Path(args.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    outcomes.to_csv(folder / "outcomes.csv", index=False)
    print(f"{args.model}, strategy {args.strategy}, seed {args.seed}\n{machine()}")
    print(
        "solved and before_error: shares of grids and of blanks; passes: forward passes of the grids that were solved"
    )
    for column, names in (("set", list(sets)), ("blanks", list(BLANKS)), ("clues", list(CLUES)), ("tier", list(TIERS))):
        groups = outcomes[outcomes[column] != ""].groupby([column, "decoding"], sort=False)
        table = groups.agg(
            puzzles=("solved", "size"),
            solved=("solved", "mean"),
            passes=("passes", "mean"),
            before_error=("before_error", "mean"),
        )
        kept = table.reindex([name for name in names if name in table.index], level=0)
        print(f"\n{kept.to_string(float_format='{:.3f}'.format)}")


if __name__ == "__main__":
    main()
