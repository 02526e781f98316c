"""A data set for reasoning-gym: puzzles with exact clue counts and a rule of logic, scored strictly.

Importing the module registers the name `sudoku_env`, so `reasoning_gym.create_dataset("sudoku_env", board=6)` makes the
data set, `reasoning_gym.factory.create_curriculum("sudoku_env")` its curriculum, and both can stand in a composite.
"""

from dataclasses import dataclass
from typing import Any

try:
    from reasoning_gym.coaching import BaseCurriculum, RangeAttributeDefinition, ScalarAttributeDefinition
    from reasoning_gym.factory import ProceduralDataset, register_dataset
except ImportError as error:
    raise ImportError("this needs reasoning-gym; `pip install 'sudoku-dllm[reasoning-gym]'` brings it") from error

from sudoku_env.board import format_board, geometry, to_string
from sudoku_env.chat.text_rows import deal, row_seed
from sudoku_env.errors import SudokuError
from sudoku_env.logic import rule_index
from sudoku_env.prompts.text import build_prompt
from sudoku_env.scoring import exact_score, partial_score

DATASET_NAME = "sudoku_env"
SCORES = {"exact": exact_score, "partial": partial_score}


@dataclass
class SudokuConfig:
    """What the puzzles are like.

    Attributes:
        board: Size of the board: 4, 6, 9 or 16.
        min_blanks: Smallest share of the cells that are blank.
        max_blanks: Largest share of the cells that are blank.
        rule: The hardest rule that a puzzle may need, as in `sudoku_env.generate`; None: one solution is enough.
        score: "exact" pays 1 for the solution alone, "partial" the share of the blanks that are right.
        seed: Seed of the data set; None draws one.
        size: Number of puzzles.
    """

    board: int = 9
    min_blanks: float = 0.5
    max_blanks: float = 0.6
    rule: str | None = "singles"
    score: str = "exact"
    seed: int | None = None
    size: int = 500

    @property
    def clues(self) -> tuple[int, int]:
        """The fewest and the most givens of a puzzle."""
        cells = geometry(self.board).cells
        return cells - round(self.max_blanks * cells), cells - max(1, round(self.min_blanks * cells))

    def validate(self) -> None:
        """Check the values, as reasoning-gym asks for: a `SudokuError` where one is out of range."""
        geometry(self.board)
        if not 0 < self.min_blanks <= self.max_blanks < 1:
            raise SudokuError(f"need 0 < min_blanks <= max_blanks < 1, got {self.min_blanks} and {self.max_blanks}")
        if self.rule is not None:
            rule_index(self.rule)
        if self.score not in SCORES:
            raise SudokuError(f"score {self.score!r} is unknown; choose one of {list(SCORES)}")


class SudokuDataset(ProceduralDataset):
    """Sudoku puzzles; item i depends on the seed, i and the other values of the config alone."""

    def __init__(self, config: SudokuConfig) -> None:
        super().__init__(config=config, seed=config.seed, size=config.size)

    def __getitem__(self, idx: int) -> dict[str, Any]:
        """The puzzle with a number, as question, answer and metadata.

        Raises:
            IndexError: There is no such number.
            BoardError: No such puzzle could be made; ask for fewer blanks or a harder rule.
        """
        if not 0 <= idx < self.size:
            raise IndexError(f"item {idx} is outside 0..{self.size - 1}")
        config: SudokuConfig = self.config
        seed = row_seed(self.seed, idx)
        puzzle, solution = deal(config.board, config.clues, config.rule, seed)
        return {
            "question": build_prompt(puzzle),
            "answer": format_board(solution),
            "metadata": {
                "source_dataset": DATASET_NAME,
                "source_index": idx,
                "puzzle": to_string(puzzle),
                "solution": to_string(solution),
                "clues": int((puzzle > 0).sum()),
                "seed": seed,
                "difficulty": {
                    "board": config.board,
                    "blanks": (config.min_blanks, config.max_blanks),
                    "rule": config.rule,
                },
            },
        }

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        """The score of an answer, as `sudoku_env.scoring` reads it: 1.0 for the solution, however it is written."""
        metadata = entry["metadata"]
        return SCORES[self.config.score](answer, metadata["puzzle"], metadata["solution"])


class SudokuCurriculum(BaseCurriculum):
    """Larger boards, more blanks and harder rules."""

    def __init__(self) -> None:
        super().__init__(SudokuCurriculum.__name__, SudokuConfig)
        self._define_attributes(
            ScalarAttributeDefinition(
                name="board", field_name="board", levels=[4, 6, 9], description="Size of the board"
            ),
            RangeAttributeDefinition(
                name="blanks",
                lower_field_name="min_blanks",
                upper_field_name="max_blanks",
                levels=[0.25, 0.4, 0.5, 0.6, 0.65],
                ensure_interval=True,
                description="Share of the cells that are blank",
            ),
            ScalarAttributeDefinition(
                name="rule",
                field_name="rule",
                levels=["singles", "locked", "pairs", "patterns"],
                description="The hardest rule that a puzzle may need",
            ),
        )


register_dataset(DATASET_NAME, SudokuDataset, SudokuConfig, SudokuCurriculum)
