"""Puzzles for a model to solve, and the table of how decodings of them went."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.utils import logging

from dllm_rl import Decoding, Threshold, load
from llm_rl.training import USER_ERRORS, load_pandas, need_reports, need_writable, user_errors
from scripts.shared.of_split import first_of_split, packed_of_split
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
    data: str = field(
        default="data/sudoku6x6_few_test.jsonl",
        metadata={"help": "With drawn=0: prompts, or 9×9 puzzles, one a line, in a .txt, of which those to test on."},
    )
    puzzles: int = field(default=200, metadata={"help": "The first so many of the file; 0 is all."})
    tokens_per_step: list[int] = field(default_factory=lambda: [1], metadata={"help": "Tokens a step."})
    threshold: list[float] = field(
        default_factory=list, metadata={"help": "Also: everything whose margin is at least this, in nats."}
    )
    seed: int = field(default=0, metadata={"help": "Random seed of drawn puzzles."})
    seeds: list[int] = field(default_factory=lambda: [0], metadata={"help": "Random seeds of what decoding draws."})
    output_dir: Path = field(default=Path("runs/decoded"), metadata={"help": "Folder of the table."})

    def __post_init__(self) -> None:
        if len(self.clues) != 2:
            raise ValueError(f"clues={self.clues}: give the fewest and the most")


def boards_of(args: PuzzleArguments) -> Board:
    """The puzzles to solve, uint8 `(N, n²)`."""
    if not args.drawn and args.data.endswith(".txt"):
        return packed_of_split(args.data, "test", args.puzzles or sys.maxsize)
    if not args.drawn:
        return np.stack([parse_puzzle(prompt) for prompt in read_prompts(args.data)[: args.puzzles or None]])
    low, high = args.clues
    pool = generate(16 * args.drawn, size=args.size, clues=(low, high), rule=None, seed=7_000_000 + args.seed)
    return first_of_split([(pool.boards, pool.solutions)], "test", args.drawn, args.size)


def filled(boards: Board, tokenizer: Any) -> list[PreFilled]:
    """Puzzles as prompts with a blank answer."""
    size = int(boards.shape[1] ** 0.5)
    return [shortest_answer(tokenizer, build_prompt(board, "compact"), size) for board in boards]


def prepared(args: PuzzleArguments) -> tuple[Any, Any, Board]:
    """Model, tokenizer and puzzles; what is missing ends the program with a sentence."""
    need_writable("output_dir", args.output_dir)
    need_reports()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    with user_errors(*USER_ERRORS, SudokuError):
        (model, tokenizer), boards = load(args.model), boards_of(args)
        filled(boards[:1], tokenizer)  # the tokenizer may have no tokens for boards of their size
    return model, tokenizer, boards


def decodings(args: PuzzleArguments) -> dict[str, Decoding]:
    """What the arguments ask for, by name: so many positions of the largest margin a step, and all above a margin."""
    by_number = {
        f"{count} token{'s' if count > 1 else ''} a step": Decoding("margin", tokens_per_step=count)
        for count in args.tokens_per_step
    }
    return by_number | {
        f"margin of {value:g}": Decoding("margin", tokens_per_step=None, limit=Threshold(value))
        for value in args.threshold
    }


def by_seed(
    solved: list[NDArray[np.bool_]], passes: list[NDArray[np.int64]], failed: NDArray[np.bool_] | None
) -> dict[str, float]:
    """What several seeds of one decoding came to: per cent solved, mean passes, and the share that is repaired.

    Args:
        solved: `(N,)` for each seed.
        passes: `(N,)` for each seed.
        failed: `(N,)`, the puzzles that may be repaired; None where there is nothing to compare with.
    """
    rates = [100 * float(each.mean()) for each in solved]
    repaired = np.nan if failed is None or not failed.any() else np.mean([each[failed].mean() for each in solved])
    return {
        "solved": float(np.mean(rates)),
        "lowest": min(rates),
        "highest": max(rates),
        "passes": float(np.mean([each.mean() for each in passes])),
        "repaired": 100 * float(repaired),
    }


class SolvedTable:
    """Rows that are printed as they come and kept as `table.csv`.

    Args:
        args: The puzzles.
        boards: How many they are.
    """

    def __init__(self, args: PuzzleArguments, boards: int) -> None:
        self.args, self.boards, self.rows = args, boards, list[dict[str, Any]]()
        args.output_dir.mkdir(parents=True, exist_ok=True)

    def add(self, row: dict[str, Any]) -> None:
        """Print a row, and write all."""
        self.rows.append(row)
        print(
            *(f"{name} {value:.1f}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items())
        )
        load_pandas().DataFrame(self.rows).to_csv(self.args.output_dir / "table.csv", index=False)

    def close(self) -> None:
        """Print the table with what it is of."""
        of = f"drawn, {self.args.clues} clues" if self.args.drawn else self.args.data
        print(f"\n{self.args.model}, {self.boards} puzzles ({of}), seeds of the draws {self.args.seeds}\n{machine()}\n")
        print(load_pandas().DataFrame(self.rows).to_string(index=False, float_format="{:.1f}".format))
