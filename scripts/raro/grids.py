"""RARO where checking is easier than solving: 4×4 grids of few clues, of which an expert shows one completion each.

Many grids complete such a board, and the expert's is one of them at random; to see that another one is wrong takes a
look for two equal digits. The start has learned for some steps from the expert's answers and, as critic, from pairs
made of them (`llm_rl.raro.start_rows`).

    python -m scripts.raro.grids [--seeds 0 1 2 --expert_answers 256 --cpu_seconds 240]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken

from llm_rl import start_rows
from llm_rl.raro.start import LABELS
from scripts.raro.demonstration import WORDS, Demonstration, DemonstrationArguments, run
from scripts.tiny_llama import word_tokenizer
from sudoku_env import completable, generate

SIZE, BLANK = 4, "_"


@dataclass
class GridsArguments(DemonstrationArguments):
    """The boards."""

    clues: list[int] = field(default_factory=lambda: [1, 5], metadata={"help": "Fewest and most clues of a board."})
    start_steps: int = field(default=400, metadata={"help": "Supervised steps of the start."})
    output_dir: str = field(default="runs/raro_grids", metadata={"help": "Run folder."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.clues) != 2 or not 0 <= self.clues[0] <= self.clues[1] < SIZE**2:
            raise ValueError(f"clues={self.clues} must be two numbers from 0 to {SIZE**2 - 1}, the fewest first")


def rows_of(boards: Any, solutions: Any) -> list[dict[str, Any]]:
    """Boards as questions, and their grids as answers: a word for each cell."""
    return [
        {
            "question": " ".join(str(digit) if digit else BLANK for digit in board.tolist()),
            "answer": " ".join(map(str, grid.tolist())),
        }
        for board, grid in zip(boards, solutions, strict=True)
    ]


class Grids(Demonstration):
    """The comparison."""

    answer_length = SIZE**2 + 1
    args: GridsArguments

    @cached_property
    def words(self) -> Any:
        """A token for each word and label."""
        made = word_tokenizer(["<end>", *"1234", BLANK, *WORDS], pad="<end>", end="<end>")
        made.add_tokens([AddedToken(label) for label in LABELS])
        return made

    @cached_property
    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Boards with an expert's answer, and held-out ones."""
        args, low_high = self.args, (self.args.clues[0], self.args.clues[1])
        test = generate(args.test_questions, size=SIZE, clues=low_high, answers="any", seed=args.test_seed)
        held_out = {board.tobytes() for board in test.boards}
        drawn = generate(2 * args.expert_answers + 100, size=SIZE, clues=low_high, answers="any", seed=0)
        kept = [place for place, board in enumerate(drawn.boards) if board.tobytes() not in held_out]
        kept = kept[: args.expert_answers]
        return {
            "train": rows_of(drawn.boards[kept], drawn.solutions[kept]),
            "test": rows_of(test.boards, test.solutions),
        }

    def start_rows(self, seed: int) -> list[dict[str, Any]]:
        """The expert's answers, and pairs of them with answers of which some cells are another's."""
        prompts = self.settings(seed, Path(self.args.output_dir)).prompts
        return start_rows(self.rows["train"], prompts, labels="true", critiques=2, foreign=(0.1, 0.6), seed=seed)

    def is_right(self, answer: str, row: Mapping[str, Any]) -> bool:
        """Whether an answer is a grid by the rules that keeps the clues of a board."""
        words, clues = answer.split(), row["question"].split()
        if len(words) != SIZE**2 or any(word not in set("1234") for word in words):
            return False
        kept = all(clue in (BLANK, word) for clue, word in zip(clues, words, strict=True))
        return kept and bool(completable(np.array([words], dtype=np.uint8))[0])


if __name__ == "__main__":
    run(Grids, GridsArguments, __doc__)
