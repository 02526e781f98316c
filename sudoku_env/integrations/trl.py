"""Sudoku for TRL's GRPOTrainer: an environment that is played by tool calls, and a reward for free answers.

TRL makes an environment for each completion, calls its `reset` with the row of the data set, offers its public methods
to the model as tools, and asks `get_reward` in the end; rows are those of `text_rows(..., tools=True)`.

```python
rows = Dataset.from_list(text_rows(1000, size=4, tools=True))
trainer = GRPOTrainer(model, train_dataset=rows, environment_factory=environment_factory(size=4))
```

Without a data set the environments deal the puzzles, one to a group: `environment_factory(size=4, num_generations=8)`,
with that of the trainer's config. A factory can be pickled, as AsyncGRPOTrainer asks for.

Nothing here imports TRL: what it asks for is a class and a function.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sudoku_env.chat.moves import GameTools, Move
from sudoku_env.chat.rewards import Completion, completion_text
from sudoku_env.chat.text_env import SudokuText
from sudoku_env.chat.text_rows import row_seed
from sudoku_env.errors import SudokuError
from sudoku_env.prompts.scoring import score_answer


@dataclass
class Deals:
    """The seeds of games that are begun one after the other, as TRL does, the members of a group in a row."""

    num_generations: int  # games of a group, which share a seed
    seed: int  # of the seeds; each process of a training has its own
    begun: int = 0

    def next(self) -> int:
        """The seed of the next game."""
        group, self.begun = self.begun // self.num_generations, self.begun + 1
        processes, rank = (int(os.environ.get(name, default)) for name, default in (("WORLD_SIZE", 1), ("RANK", 0)))
        return row_seed(self.seed, group * processes + rank)


class SudokuTools(GameTools):
    """One game at a time, of which TRL sees `reset`, `get_reward` and the moves.

    Args:
        game: The environment that is played.
        deals: Where the seed of a game without a row comes from, shared with the other games; None refuses such games.
    """

    def __init__(self, game: SudokuText, deals: Deals | None = None) -> None:
        self._game, self._deals = game, deals

    def reset(self, puzzle: str | None = None, seed: int | None = None, **columns: Any) -> str | None:
        """Begin the game of a row, or without a data set the next one.

        Args:
            puzzle: Column with the puzzle; the prompt must show it.
            seed: Column with the seed of the puzzle, for rows without a puzzle.
            columns: The other columns, not read.

        Returns:
            None for a row with a puzzle; else the rules and the puzzle, which TRL appends to the prompt.

        Raises:
            SudokuError: The row has neither, so that the completions of one prompt would play different puzzles.
        """
        if puzzle is None and seed is None:
            if self._deals is None:
                raise SudokuError(
                    "the row has neither 'puzzle' nor 'seed'; make rows with text_rows(n, tools=True), or pass "
                    "environment_factory the num_generations of the trainer's config, and it deals to whole groups"
                )
            seed = self._deals.next()
        if puzzle is not None:
            self._game.reset(options={"puzzle": puzzle})
            return None
        return self._game.reset(seed=seed)[0]

    def get_reward(self) -> float:
        """The sum of the rewards of the game, as `SudokuText` pays them."""
        return self._game.score

    @property
    def game(self) -> SudokuText:
        """The game that is played, for reward functions that ask for more, such as `game.info()["hints"]`."""
        return self._game

    def _called(self, move: Move) -> str:
        reply: str = getattr(self._game, move.name)(*move.numbers)
        return reply


def environment_factory(
    size: int = 9, *, num_generations: int | None = None, seed: int = 0, **arguments: Any
) -> Callable[[], SudokuTools]:
    """What GRPOTrainer and AsyncGRPOTrainer take as `environment_factory`.

    Args:
        size: Board size.
        num_generations: Completions of a group, as in the trainer's config, to play without a data set; None plays
            rows. A process must hold whole groups, as its batch does where it is a multiple of this.
        seed: Seed of the puzzles without a data set; a training that is resumed takes another.
        arguments: The other arguments of `SudokuText`, such as `clues`, `rule`, `reward`, `hint_cost`, `max_turns`.

    Raises:
        SudokuError: `num_generations` is below 1.
    """
    if num_generations is not None and num_generations < 1:
        raise SudokuError(f"num_generations={num_generations!r} is no group; pass that of the trainer's config or None")
    deals = None if num_generations is None else Deals(num_generations, seed)
    return partial(_tools, deals, size=size, tools=True, **arguments)


def _tools(deals: Deals | None, **arguments: Any) -> SudokuTools:
    return SudokuTools(SudokuText(**arguments), deals)


def answer_reward(completions: Sequence[Completion], puzzle: Sequence[str], **columns: Any) -> list[float]:
    """A reward function for free answers: 1.0 where the last full board is the solution, else 0.0 (`exact_score`).

    The share of answers without any full board, which are not wrong but unread, is logged as "unparsed".

    Args:
        completions: Texts or chat messages.
        puzzle: Column of puzzles.
        columns: The other columns, not read but for `solution`, which saves solving the puzzles, and `log_metric`,
            TRL's and `llm_rl`'s way to log.

    Raises:
        BoardError: A puzzle has no blank, or not exactly one solution.
    """
    solution = columns.get("solution") or [None] * len(puzzle)
    rows = zip(completions, puzzle, solution, strict=True)
    scores = [score_answer(completion_text(completion), board, right) for completion, board, right in rows]
    if log_metric := columns.get("log_metric"):
        log_metric("unparsed", sum(score.board is None for score in scores) / len(scores))
    return [score.exact for score in scores]
