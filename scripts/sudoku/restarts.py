"""What it is worth to fill an answer anew where it contradicts itself, at equal forward passes.

Decodes by largest margin, a number of tokens a step or everything above a threshold, and the same with restarts
(`dllm_rl.TakeBack.restart_share`) for several shares and most passes. A share of 1 masks the whole answer
again, which is drawing another one until one fits: the control. Without restarts nothing is drawn.

Puzzles come from a file of prompts, or with `--drawn` from the generator, of grids of the test split. Prints and writes
`table.csv`: solved in per cent, mean passes, and of the puzzles that the same decoding fails without restarts the share
that is repaired; with several seeds of the draws, means and the lowest and highest.

    python -m scripts.sudoku.restarts [--model data/models/llada-sudoku9x9 --drawn 200 --threshold 8]
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils import logging

from dllm_rl import Decoding, Evaluation, SudokuTask, TakeBack, Threshold, evaluate, load
from llm_rl.training import USER_ERRORS, load_pandas, need_reports, need_writable, parse, user_errors
from scripts.sudoku.of_split import first_of_split
from sudoku_dllm.answers import shortest_answer
from sudoku_dllm.machine import machine
from sudoku_env import Board, PreFilled, SudokuError, build_prompt, generate, parse_puzzle, read_prompts


@dataclass
class PuzzleArguments:
    """The model, and the puzzles that it is to solve."""

    model: str = field(default="llada-sudoku9x9", metadata={"help": "A shipped model, or a folder."})
    drawn: int = field(default=200, metadata={"help": "Puzzles to draw; 0: those of the file."})
    size: int = field(default=9, metadata={"help": "Board size."})
    clues: list[int] = field(default_factory=lambda: [22, 30], metadata={"help": "Fewest and most clues."})
    data: str = field(default="data/sudoku6x6_few_test.jsonl", metadata={"help": "Prompts, with drawn=0."})
    puzzles: int = field(default=200, metadata={"help": "The first so many of the file; 0 is all."})
    tokens_per_step: list[int] = field(default_factory=lambda: [1], metadata={"help": "Tokens a step."})
    seed: int = field(default=0, metadata={"help": "Random seed of drawn puzzles."})

    def __post_init__(self) -> None:
        if len(self.clues) != 2:
            raise ValueError(f"clues={self.clues}: give the fewest and the most")


@dataclass
class Arguments(PuzzleArguments):
    """Arguments of `restarts.py`."""

    threshold: list[float] = field(
        default_factory=lambda: [8.0], metadata={"help": "Also: everything whose margin is at least this, in nats."}
    )
    restart_share: list[float] = field(default_factory=lambda: [0.0, 0.4, 1.0], metadata={"help": "As in TakeBack."})
    max_passes: list[int] = field(default_factory=lambda: [60, 100, 200], metadata={"help": "Most forward passes."})
    seeds: list[int] = field(default_factory=lambda: [0], metadata={"help": "Random seeds of the draws."})
    output_dir: str = field(default="runs/restarts", metadata={"help": "Folder of the table."})


def boards_of(args: PuzzleArguments) -> Board:
    """The puzzles to solve, uint8 `(N, n²)`."""
    if not args.drawn:
        return np.stack([parse_puzzle(prompt) for prompt in read_prompts(args.data)[: args.puzzles or None]])
    low, high = args.clues
    pool = generate(16 * args.drawn, size=args.size, clues=(low, high), rule=None, seed=7_000_000 + args.seed)
    return first_of_split([(pool.boards, pool.solutions)], "test", args.drawn, args.size)


def filled(boards: Board, tokenizer: Any) -> list[PreFilled]:
    """Puzzles as prompts with a blank answer."""
    size = int(boards.shape[1] ** 0.5)
    return [shortest_answer(tokenizer, build_prompt(board, "compact"), size) for board in boards]


def row(name: str, how: TakeBack | None, found: list[Evaluation], plain: Evaluation) -> dict[str, Any]:
    """A line of the table."""
    solved = [100 * float(one.solved.mean()) for one in found]
    failed = ~plain.solved
    return {
        "decoding": name,
        "restart_share": how and how.restart_share,
        "max_passes": how and how.max_passes,
        "solved": np.mean(solved),
        "lowest": min(solved),
        "highest": max(solved),
        "passes": np.mean([one.forward_passes.mean() for one in found]),
        "repaired": 100 * np.mean([one.solved[failed].mean() for one in found]) if how and failed.any() else np.nan,
    }


def main() -> None:
    """Decode, print and write."""
    (args,) = parse(Arguments, description=__doc__)
    need_writable("output_dir", args.output_dir)
    need_reports()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    with user_errors(*USER_ERRORS, SudokuError):
        model, tokenizer = load(args.model)
        puzzles = filled(boards_of(args), tokenizer)
        settings = [TakeBack(most, restart_share=share) for share in args.restart_share for most in args.max_passes]
    task = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id)
    decodings = {
        f"{count} token{'s' if count > 1 else ''} a step": Decoding("margin", tokens_per_step=count)
        for count in args.tokens_per_step
    }
    decodings |= {
        f"margin of {value:g}": Decoding("margin", tokens_per_step=None, limit=Threshold(value))
        for value in args.threshold
    }
    pd, table = load_pandas(), []
    folder = Path(args.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    for name, how in decodings.items():
        plain = evaluate(model, puzzles, task, how)
        table.append(row(name, None, [plain], plain))
        for rule in settings:
            restarting = replace(how, take_back=rule)
            found = [evaluate(model, puzzles, task, restarting, seed=seed) for seed in args.seeds]
            table.append(row(name, rule, found, plain))
            print(table[-1], flush=True)
        pd.DataFrame(table).to_csv(folder / "table.csv", index=False)
    of = f"drawn, {args.clues} clues" if args.drawn else args.data
    print(f"\n{args.model}, {len(puzzles)} puzzles ({of}), seeds of the draws {args.seeds}\n{machine()}\n")
    print(pd.DataFrame(table).to_string(index=False, float_format="{:.1f}".format))


if __name__ == "__main__":
    main()
