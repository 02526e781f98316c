"""What it is worth to look at one board under many symmetries.

Each puzzle is decoded by largest margin as it is, and then as images of it: digits renamed, or rows, columns, bands,
stacks and both axes changed too. The first answer in which no unit holds a digit twice counts, so that nothing is
known of the solution; a puzzle with one solution is then solved. Prints and writes `table.csv`: by decoding and number
of looks solved in per cent, mean passes of all looks up to the one that counts, and the share that is repaired of
the puzzles which the first look fails. Beside it stands `scripts.sudoku.restarts`, at as many passes.

    python -m scripts.sudoku.looks [--model llada-sudoku9x9 --drawn 200 --looks 1 16 --tokens_per_step 1 --threshold 4]
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dllm_rl import Decoding, SudokuTask, decode
from llm_rl.core._checks import check_choice
from llm_rl.training import parse
from scripts.sudoku.solving import PuzzleArguments, SolvedTable, by_seed, decodings, filled, prepared
from sudoku_env import Board
from sudoku_env.symmetries import Symmetries, symmetric_images

DECODED_AT_ONCE = 400


@dataclass
class Arguments(PuzzleArguments):
    """Arguments of `looks.py`."""

    looks: list[int] = field(default_factory=lambda: [1, 4, 16], metadata={"help": "Looks at a board."})
    symmetries: list[str] = field(
        default_factory=lambda: ["digits", "all"], metadata={"help": "What images differ by: digits, or all."}
    )
    output_dir: Path = field(default=Path("runs/looks"), metadata={"help": "Folder of the table."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.looks or min(self.looks) < 1:
            raise ValueError(f"looks={self.looks} must be numbers from 1 on; 1 is the board as it is")
        for name in self.symmetries:
            check_choice("symmetries", name, Symmetries)


@dataclass(frozen=True)
class Looks:
    """Decodes of N boards under the same number of symmetries each.

    Attributes:
        consistent: bool `(looks, N)`, whether the answer is a full grid without a clash that keeps the clues.
        passes: int64 `(looks, N)`, forward passes; 0, and never consistent, where an earlier look was enough.
    """

    consistent: NDArray[np.bool_]
    passes: NDArray[np.int64]

    def first(self, count: int) -> "Looks":
        """The first looks."""
        return Looks(self.consistent[:count], self.passes[:count])

    @property
    def solved(self) -> NDArray[np.bool_]:
        """bool `(N,)`: whether some look is consistent."""
        return np.asarray(self.consistent.any(0))

    @property
    def passes_used(self) -> NDArray[np.int64]:
        """int64 `(N,)`: the passes up to the first consistent look, or of all."""
        used = np.where(self.solved, self.consistent.argmax(0) + 1, len(self.consistent))
        taken: NDArray[np.int64] = np.where(np.arange(len(self.passes))[:, None] < used, self.passes, 0).sum(0)
        return taken


def answered(model: nn.Module, tokenizer: Any, how: Decoding, boards: Board) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Whether each answer is consistent, bool `(N,)`, and its passes, int64 `(N,)`."""
    task, parts = SudokuTask(tokenizer.pad_token_id, tokenizer.eos_token_id), []
    for begin in range(0, len(boards), DECODED_AT_ONCE):
        problems = task.batch(filled(boards[begin : begin + DECODED_AT_ONCE], tokenizer))
        record = decode(model, problems, how)
        clashes = problems.contradictions(record.responses, torch.arange(len(problems))).any(1)
        parts.append((~clashes.numpy(), record.forward_passes.numpy()))
    consistent, passes = (np.concatenate(each) for each in zip(*parts, strict=True))
    return consistent, passes


def decoded(model: nn.Module, tokenizer: Any, how: Decoding, images: Board) -> Looks:
    """Looks at N boards until one is consistent, at an image of each, uint8 `(looks, N, n²)`, after the other."""
    looks = Looks(np.zeros(images.shape[:2], dtype=bool), np.zeros(images.shape[:2], dtype=np.int64))
    for number, boards in enumerate(images):
        open_ = np.flatnonzero(~looks.solved)
        if len(open_):
            looks.consistent[number, open_], looks.passes[number, open_] = answered(
                model, tokenizer, how, boards[open_]
            )
    return looks


def main() -> None:
    """Decode, print and write."""
    (args,) = parse(Arguments, description=__doc__)
    model, tokenizer, boards = prepared(args)
    table = SolvedTable(args, len(boards))
    for name, how in decodings(args).items():
        for symmetries in args.symmetries:
            every = []
            for seed in args.seeds:
                images = symmetric_images(list(boards), max(args.looks), symmetries=symmetries, seed=seed)
                every.append(decoded(model, tokenizer, how, images.reshape(max(args.looks), *boards.shape)))
            for count in args.looks:
                about = {"decoding": name, "symmetries": symmetries, "looks": count}
                found = [one.first(count) for one in every]
                columns = [one.solved for one in found], [one.passes_used for one in found]
                table.add({**about, **by_seed(*columns, failed=~every[0].first(1).solved)})
    table.close()


if __name__ == "__main__":
    main()
