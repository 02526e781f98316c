"""The field's objectives side by side at equal CPU time, on boards where any valid grid is right and a solver says so.

6×6 boards with 1 to 8 clues, of which a shipped model completes nearly all at one cell a pass and few at four. From it
each arm trains for the same CPU seconds: an objective of `scripts.referee.objectives` on groups of completions, which
earn 1 for a valid grid (with `--reward passes` the share of passes before an error), or ours: the group-relative policy
gradient of positions and tokens, and judged decisions. All but JustGRPO, which writes a cell a pass from left to right,
sample four cells a pass, positions by their margins. Judged are greedy decodes of held-out boards, by margin.

    python -m scripts.referee.boards [METHOD …] [--seeds 0 1 2 3 4 --cpu_seconds 120 --rates spg=3e-4]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from transformers import PreTrainedModel

from dllm_rl import UnmaskBatch, UnmaskTask
from dllm_rl.models.shipped import model_folder
from llm_rl.core._options import option
from scripts.referee.compare import Referee, RefereeArguments, figures, run
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.rates import rates_help
from sudoku_env.answers import Answers
from sudoku_env.board import Board


@dataclass
class BoardsArguments(RefereeArguments):
    """The boards."""

    POSITIONS: ClassVar[tuple[int, ...]] = (1, 2, 4, 6, 9)
    RATES: ClassVar[Mapping[str, float]] = {
        "diffu_grpo": 3e-5, "wd1": 3e-4, "coupled_grpo": 3e-5, "spg": 3e-5, "espo": 1e-4, "trace_rl": 3e-5,
        "cj_grpo": 3e-4, "just_grpo": 1e-3, "upo": 1e-3, "dispo": 1.5e-4, "dispo_judged": 5e-5, "policy_gradient": 3e-5,
        "judged": 1.5e-4,
    }  # fmt: skip

    model: str = option("llada-sudoku6x6-converged", "A shipped model, or its folder.")
    size: int = option(6, "Size of the boards; the model must know its tokens.")
    clues: list[int] = option([1, 8], "Fewest and most clues of a board.")
    boards: int = option(4000, "Boards to train on, others for each seed.")
    test_boards: int = option(400, "Held-out boards.")
    rates: list[str] = option([], rates_help(RATES))
    output_dir: str = option("runs/referee_boards", "Run folder.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model = model_folder(self.model)


class Boards(Referee):
    """The comparison."""

    FIGURES: ClassVar[Mapping[str, str]] = figures(BoardsArguments.POSITIONS, "cells")
    ANSWERS: ClassVar[Answers] = "any"
    args: BoardsArguments

    @cached_property
    def setting(self) -> Setting:
        """The boards as the model reads them."""
        args = self.args
        script = ScriptArguments(
            model=args.model,
            size=args.size,
            clues=args.clues,
            boards=args.boards,
            test_boards=args.test_boards,
            test_seed=args.test_seed,
        )
        recipe = RecipeArguments(output_dir=args.output_dir, report_to="none", use_cpu=True)
        return Setting.load(script, recipe, tests=self.tests, answers=self.ANSWERS)

    @property
    def tests(self) -> Board | None:
        """The held-out boards, uint8 `(N, n²)`; None: boards that are drawn."""
        return None

    @property
    def task(self) -> UnmaskTask:
        """See `Referee.task`."""
        return self.setting.task

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """The shipped model."""
        return self.load(Path(self.args.model))

    def training_problems(self, seed: int) -> Sequence[Any]:
        """See `Referee.training_problems`."""
        boards, _ = self.setting.training_boards(seed)
        return self.setting.filled(boards)

    def test_batch(self) -> UnmaskBatch:
        """See `Referee.test_batch`."""
        return self.setting.batch(self.setting.test_boards())


if __name__ == "__main__":
    run(Boards, BoardsArguments, __doc__)
