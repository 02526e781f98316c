"""The field's objectives side by side on the 4×4 boards that its papers test on, judged by the rules and as they judge.

The test files of d1 (github.com/dllm-reasoning/d1, `4x4_test_sudoku.csv`: 500 puzzles of 8 clues, 124 of which have
several solutions) and SPG (github.com/facebookresearch/SPG, 256 of 4 to 9 clues) have a column for the puzzle and one
for the solution that their authors count. Right is here any valid grid that keeps the clues; beside it the table has
how many grids are the authors' own, and the share of blank cells that are as in theirs, which is d1's reward. Their
prompts say the rules in words to a model of 8B; here the puzzle alone is read, by a model of some 10⁵ parameters.

The start is taught 4×4 boards with a solution each (`--start rules`) or with random digits (`--start form`), none of
which is in the files. From it each arm trains as on boards (`scripts.referee.boards`).

    python -m scripts.referee.published [METHOD …] --tests 4x4_test_sudoku.csv [--cpu_seconds 120]
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedModel, set_seed

from dllm_rl import UnmaskBatch
from llm_rl.core._checks import check_choice
from llm_rl.core._options import option
from llm_rl.training import need_file
from scripts.referee.boards import Boards, BoardsArguments
from scripts.referee.compare import RefereeArguments, Start, figures, run, taught
from sudoku_dllm.trials.rates import rates_help
from sudoku_dllm.trials.trial import short_training
from sudoku_env import Puzzles, read_puzzles
from sudoku_env.board import Board

SIZE = 4
COMPARED = {"theirs": "their grid", "blanks": "blanks as in theirs"}
"""What else is told of answers, by name."""


@dataclass
class PublishedArguments(BoardsArguments):
    """The files, and the start."""

    POSITIONS: ClassVar[tuple[int, ...]] = (1, 2, 4, 8)
    RATES: ClassVar[Mapping[str, float]] = dict.fromkeys(RefereeArguments.RATES, 1e-5) | {
        "trace_rl": 3e-5, "cj_grpo": 3e-5, "just_grpo": 3e-5, "upo": 3e-4, "judged": 1e-4,
    }  # fmt: skip

    tests: list[str] = option([], "CSV files of 4×4 puzzles and solutions.")
    size: int = option(SIZE, "Size of the boards, 4.")
    clues: list[int] = option([4, 9], "Fewest and most clues in training.")
    start: Start = option("rules", "rules: taught solutions; form: taught random digits.")
    start_steps: int = option(400, "Supervised steps of the start.")
    start_learning_rate: float = option(2e-3, "Rate of the start, which falls to 0.")
    rates: list[str] = option([], rates_help(RATES))
    output_dir: str = option("runs/referee_published", "Run folder.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("start", self.start, Start)
        if self.size != SIZE or self.start_steps < 1:
            raise ValueError(f"size={self.size} must be {SIZE}, and start_steps={self.start_steps} 1 or more")
        for name in ("test_boards", "test_seed"):
            if getattr(self, name) != getattr(BoardsArguments, name):
                raise ValueError(f"{name}={getattr(self, name)} has no say here: all puzzles of the files are judged")
        if not self.tests:
            raise ValueError("tests names no file; give CSV files with the columns puzzle and solution")
        for path in self.tests:
            need_file("tests", Path(path))
            if (cells := read_puzzles(path).boards.shape[1]) != SIZE**2:
                raise ValueError(f"tests: {path} has puzzles of {cells} cells; give 4×4 puzzles")


class Published(Boards):
    """The comparison."""

    FIGURES: ClassVar[Mapping[str, str]] = figures(PublishedArguments.POSITIONS, "cells") | {
        f"{name}/{k}": f"{title} at {k}" for name, title in COMPARED.items() for k in PublishedArguments.POSITIONS
    }
    args: PublishedArguments

    @cached_property
    def published(self) -> Puzzles:
        """The puzzles of all files."""
        found = [read_puzzles(path) for path in self.args.tests]
        boards, solutions = zip(*((each.boards, each.solutions) for each in found), strict=True)
        return Puzzles(np.concatenate(boards), np.concatenate(solutions))

    @property
    def tests(self) -> Board:
        """See `Boards.tests`."""
        return self.published.boards

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """A model from random weights after supervised steps."""
        args = self.args
        set_seed(seed)
        model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(args.model))
        boards, shown = self.setting.training_boards(seed + 1000)
        if args.start == "form":
            shown = np.where(boards > 0, boards, np.random.default_rng(seed).integers(1, SIZE + 1, boards.shape))
        settings = short_training(folder, 64, seed, args.start_learning_rate)
        settings |= {"max_steps": args.start_steps, "warmup_steps": min(50, args.start_steps)}
        return taught(model, self.setting.batch(boards, shown.astype(np.uint8)), settings)

    def test_batch(self) -> UnmaskBatch:
        """See `Referee.test_batch`."""
        return self.setting.batch(self.published.boards, self.published.solutions)

    def compared(self, tests: UnmaskBatch, responses: Tensor) -> dict[str, NDArray[Any]]:
        """Whether the grid is the authors' own, and the share of blank cells that are as in theirs."""
        blanks = tests.responses == tests.mask_id  # (Q, R)
        same = (responses == tests.answers) & blanks
        share = same.sum(1) / blanks.sum(1)
        return {"theirs": torch.eq(share, 1).numpy(), "blanks": share.double().numpy()}


if __name__ == "__main__":
    run(Published, PublishedArguments, __doc__)
