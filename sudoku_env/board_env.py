"""`Sudoku-v0`: fill a board cell by cell, without tokens."""

from collections.abc import Sequence
from operator import index
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sudoku_env.board import Board, BoardLike, as_board, geometry
from sudoku_env.dynamics import unmask_reward
from sudoku_env.episodes import DEFAULT_CLUES, check_render_mode, draw_puzzle, pick_index, render_progress
from sudoku_env.errors import BoardError
from sudoku_env.logic import candidates
from sudoku_env.progress import Progress
from sudoku_env.solver import solve_batch


class SudokuEnv(gymnasium.Env[NDArray[np.uint8], int]):
    """Fill the blanks of a Sudoku in an order that logic allows.

    ## Action Space

    `Discrete(n³)`: `cell * n + digit - 1` writes `digit` (1..n) in `cell` (0..n²-1, row by row). `info["action_mask"]`,
    int8 `(n³,)`, is 1 for the legal actions: the cell is blank and no peer holds the digit.
    `env.action_space.sample(info["action_mask"])` draws one of them.

    ## Observation Space

    `Box(0, n, (n, n), uint8)`: the board, 0 for a blank.

    ## Rewards

    - 1 for the right digit in a cell that is logically forced (naked or hidden single);
    - 0 for the right digit in a cell that is not, and for a wrong digit;
    - `illegal_reward` for an action outside the mask.

    These are the rewards of `SudokuUnmask-v0` inside the map; there is no bonus for finishing.

    ## Episode End

    Terminates when the board is full, after a wrong digit (one that differs from the solution), and after an illegal
    action, which leaves the board as it was. It never truncates; at most n² steps are possible.

    `info` further holds `forced`, int8 `(n²,)`: the cells that are forced now, none once a digit is wrong; `error`:
    whether a digit is wrong; `illegal`: whether the last action was; `steps`; and `solution`, int64 `(n²,)`.

    ## Arguments

    ```python
    gymnasium.make("sudoku_env:Sudoku-v0", size=9, clues=(30, 36))
    gymnasium.make("sudoku_env:Sudoku-v0", size=4, boards=["1...|..3.|.1..|...2"])
    ```

    - `size` (4, 6, 9 or 16; default 9): n.
    - `clues` (default by size): number of digits given, or an inclusive range, of puzzles generated at every reset;
      singles alone solve them.
    - `boards` (default none): puzzles to draw from instead, each with one solution.
    - `illegal_reward` (default -1.0).
    - `render_mode` (`"ansi"`, `"rgb_array"` or none).

    `reset(options={"index": i})` picks board i of `boards`. All randomness comes from `reset(seed=...)`.

    ## Version History

    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        size: int = 9,
        clues: int | tuple[int, int] | None = None,
        boards: Sequence[BoardLike] | None = None,
        *,
        illegal_reward: float = -1.0,
        render_mode: str | None = None,
    ) -> None:
        cells = geometry(size).cells
        if clues is not None and boards is not None:
            raise BoardError(f"clues {clues!r} has no effect on given boards; pass one of the two")
        self.size = size
        self.clues = DEFAULT_CLUES[size] if clues is None else clues
        self.illegal_reward = float(illegal_reward)
        self.render_mode = check_render_mode(render_mode)
        self.observation_space = spaces.Box(0, size, (size, size), np.uint8)
        self.action_space = spaces.Discrete(cells * size)  # type: ignore[assignment]
        self._puzzles = None if boards is None else _check_boards(boards, size)
        self._progress: Progress | None = None
        self._legal = np.zeros((cells, size), dtype=bool)
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start with the next puzzle; see the class."""
        super().reset(seed=seed)
        count = 0 if self._puzzles is None else len(self._puzzles[0])
        choice = pick_index(count, options, self.np_random)
        if self._puzzles is None:
            self._progress = Progress(*draw_puzzle(self.size, self.clues, self.np_random))
        else:
            boards, solutions = self._puzzles
            self._progress = Progress(boards[choice], solutions[choice])
        self._legal = candidates(self._progress.board)
        self._over = False
        return self._observe(self._progress), self._info(self._progress, illegal=False)

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Write one digit; see the class.

        Raises:
            gymnasium.error.ResetNeeded: The episode is over, or none has begun.
            gymnasium.error.InvalidAction: The action is outside the action space.
        """
        progress = self._running()
        number = index(action)
        if not 0 <= number < self.size**3:
            raise gymnasium.error.InvalidAction(f"action {number} is outside 0..{self.size**3 - 1}")
        cell, digit = number // self.size, number % self.size + 1
        illegal = not self._legal[cell, digit - 1]
        if illegal:
            reward = self.illegal_reward
        else:
            reward = float(unmask_reward(True, progress.forced[cell], digit == progress.solution[cell], 0.0))
            progress.fill(np.array([cell]), np.array([digit]))
            self._legal = candidates(progress.board)
        self._over = illegal or progress.error or bool(progress.board.all())
        return self._observe(progress), reward, self._over, False, self._info(progress, illegal)

    def render(self) -> str | NDArray[np.uint8] | None:
        """The board as text with terminal colors (`"ansi"`) or uint8 `(height, width, 3)` (`"rgb_array"`)."""
        return render_progress(self._progress, self.render_mode)

    def _running(self) -> Progress:
        if self._over or self._progress is None:
            raise gymnasium.error.ResetNeeded("the episode is over or has not begun; call reset() first")
        return self._progress

    def _observe(self, progress: Progress) -> NDArray[np.uint8]:
        return progress.board.astype(np.uint8).reshape(self.size, self.size)

    def _info(self, progress: Progress, illegal: bool) -> dict[str, Any]:
        return {
            "action_mask": self._legal.reshape(-1).astype(np.int8),
            "forced": progress.forced.astype(np.int8),
            "error": progress.error,
            "illegal": illegal,
            "steps": progress.steps,
            "solution": progress.solution.astype(np.int64),
        }


def _check_boards(boards: Sequence[BoardLike], size: int) -> tuple[Board, Board]:
    """The boards and their solutions, each uint8 `(N, n²)`."""
    if len(boards) == 0:
        raise BoardError("boards is empty; pass at least one puzzle, or None to generate them")
    puzzles = np.stack([as_board(board, size) for board in boards])
    solutions, counts = solve_batch(puzzles, limit=2)
    for number, (puzzle, count) in enumerate(zip(puzzles, counts, strict=True)):
        if count != 1:
            raise BoardError(f"board {number} has {'no' if count == 0 else 'more than one'} solution; it needs one")
        if puzzle.all():
            raise BoardError(f"board {number} has no blank; there is nothing to fill")
    return puzzles, solutions
