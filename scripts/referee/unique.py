"""The field's objectives side by side on puzzles with one solution, where a label says all that a judge can.

6×6 puzzles with 10 to 13 clues, fewer than the shipped model was made for, or 9×9 ones. Grids to train on are those of
the train split, held out are puzzles of the test split, by canonical form. The rest is as on boards with several
answers (`scripts.referee.boards`), but for six cells a pass, as the shipped models fill four rightly.

    python -m scripts.referee.unique [METHOD …] [--seeds 0 1 2 3 4 --cpu_seconds 40]
    python -m scripts.referee.unique [METHOD …] --model llada-sudoku9x9 --size 9 --clues 22 26 --tokens_per_step 9
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from llm_rl.core._options import option
from scripts.referee.boards import Boards, BoardsArguments
from scripts.referee.compare import RefereeArguments, run
from scripts.shared.of_split import first_of_split
from sudoku_dllm.trials.rates import rates_help
from sudoku_env import generate
from sudoku_env.answers import Answers
from sudoku_env.board import Board

FEWEST = {4: 4, 6: 8, 9: 17}
"""The fewest clues of a puzzle with one solution, by size."""
OF_A_SPLIT = 8
"""So many puzzles are drawn for each that is wanted, as a split has a fifth of them or more."""


@dataclass
class UniqueArguments(BoardsArguments):
    """The puzzles."""

    RATES: ClassVar[Mapping[str, float]] = dict.fromkeys(RefereeArguments.RATES, 1e-5) | {
        "cj_grpo": 3e-5,
        "just_grpo": 3e-5,
        "upo": 1e-4,
        "judged": 3e-5,
    }

    clues: list[int] = option([10, 13], "Fewest and most clues of a puzzle.")
    tokens_per_step: int = option(6, "Cells that a pass of the sampler fills.")
    rates: list[str] = option([], rates_help(RATES))
    output_dir: str = option("runs/referee_unique", "Run folder.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size not in FEWEST or self.clues[0] < FEWEST[self.size]:
            raise ValueError(
                f"clues={self.clues} of size={self.size}: puzzles with one solution have at least "
                f"{', '.join(f'{clues} ({size}×{size})' for size, clues in FEWEST.items())}"
            )


class Unique(Boards):
    """The comparison."""

    ANSWERS: ClassVar[Answers] = "one"
    args: UniqueArguments

    def drawn(self, split: str, count: int, seed: int) -> Board:
        """Puzzles whose grids belong to a split, uint8 `(count, n²)`."""
        drawn_from = int(np.random.SeedSequence([seed, split == "train"]).generate_state(1)[0])
        clues = (self.args.clues[0], self.args.clues[1])
        pool = generate(OF_A_SPLIT * count, size=self.args.size, clues=clues, rule=None, seed=drawn_from)
        return first_of_split([(pool.boards, pool.solutions)], split, count, self.args.size)

    @property
    def tests(self) -> Board:
        """See `Boards.tests`."""
        return self.drawn("test", self.args.test_boards, self.args.test_seed)

    def training_problems(self, seed: int) -> Sequence[Any]:
        """See `Referee.training_problems`."""
        return self.setting.filled(self.drawn("train", self.args.boards, seed))


if __name__ == "__main__":
    run(Unique, UniqueArguments, __doc__)
