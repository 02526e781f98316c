"""Sudoku for TRL's GRPOTrainer: an environment that is played by tool calls, and a reward for free answers.

TRL makes an environment for each completion, calls its `reset` with the row of the data set, offers its public methods
to the model as tools, and asks `get_reward` in the end; rows are those of `text_rows(..., tools=True)`.

```python
rows = Dataset.from_list(text_rows(1000, size=4, tools=True))
trainer = GRPOTrainer(model, train_dataset=rows, environment_factory=environment_factory(size=4))
```

Nothing here imports TRL: what it asks for is a class and a function.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sudoku_env.chat.moves import GameTools, Move
from sudoku_env.chat.rewards import Completion, completion_text
from sudoku_env.chat.text_env import SudokuText
from sudoku_env.errors import SudokuError
from sudoku_env.scoring import exact_score


class SudokuTools(GameTools):
    """One game at a time, of which TRL sees `reset`, `get_reward` and the four moves.

    Args:
        game: The environment that is played.
    """

    def __init__(self, game: SudokuText) -> None:
        self._game = game

    def reset(self, puzzle: str | None = None, seed: int | None = None, **columns: Any) -> str | None:
        """Begin the game of a row.

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
            raise SudokuError("the row has neither 'puzzle' nor 'seed'; make rows with text_rows(n, tools=True)")
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


def environment_factory(size: int = 9, **arguments: Any) -> Callable[[], SudokuTools]:
    """What GRPOTrainer takes as `environment_factory`.

    Args:
        size: Board size.
        arguments: The other arguments of `SudokuText`, such as `clues`, `rule`, `reward`, `hint_cost`, `max_turns`.
    """
    return lambda: SudokuTools(SudokuText(size=size, tools=True, **arguments))


def answer_reward(completions: Sequence[Completion], puzzle: Sequence[str], **columns: Any) -> list[float]:
    """A reward function for free answers: 1.0 where the last full board is the solution, else 0.0 (`exact_score`).

    Args:
        completions: Texts or chat messages.
        puzzle: Column of puzzles.
        columns: The other columns, not read but for `solution`, which saves solving the puzzles.

    Raises:
        BoardError: A puzzle has no blank, or not exactly one solution.
    """
    solution = columns.get("solution") or [None] * len(puzzle)
    rows = zip(completions, puzzle, solution, strict=True)
    return [exact_score(completion_text(completion), board, right) for completion, board, right in rows]
