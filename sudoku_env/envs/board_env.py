"""`Sudoku-v0`: fill a board cell by cell, without tokens."""

from collections.abc import Mapping
from operator import index
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sudoku_env.envs.board_state import BoardRules, BoardState
from sudoku_env.envs.episodes import check_render_mode, chosen_index, render_view
from sudoku_env.envs.sources import PuzzleSource, source_of
from sudoku_env.kernels.play import play_one
from sudoku_env.parts import parts_of


class SudokuEnv(gymnasium.Env[NDArray[np.uint8], int]):
    """Fill the blanks of a Sudoku in an order that logic allows.

    ## Action Space

    `Discrete(n³)`: `cell * n + digit - 1` writes `digit` (1..n) in `cell` (0..n²-1, row by row). `info["action_mask"]`,
    int8 `(n³,)`, is 1 for the legal actions: the cell is blank and no peer holds the digit.
    `sample_legal(info["action_mask"], rng)` draws one of them fast, `env.action_space.sample(info["action_mask"])` in
    Gymnasium's way.

    ## Observation Space

    `Box(0, n, (n²,), uint8)`: the board row by row, 0 for a blank.

    ## Rewards

    - 1 for the right digit in a definite cell (naked or hidden single, or by `rule`);
    - 0 for the right digit in any other cell, and for a wrong digit;
    - `illegal_reward` for an action outside the mask.

    These are the rewards of `SudokuUnmask-v0` inside the map; there is no bonus for finishing. Once a digit is wrong,
    no cell is definite any more (docs/environments.md, "The reward of an action").

    ## Episode End

    Terminates when the board is full, after an illegal action, which leaves the board as it was, and

    - with `end_on="error"` after a wrong digit: one that differs from the solution, or with `answers="any"` one that
      leaves no solution;
    - with `end_on="dead_end"` when some blank cell has no candidate left; a wrong digit alone goes on.

    It never truncates; at most n² steps are possible.

    `info` holds, after `reset` and `step` alike, `action_mask`, also after the last step that of the board as it is;
    `error`: whether a digit is wrong; `illegal`: whether the last action was; and `steps`, the digits written. Its
    arrays and the observation are new at every step. What costs more is computed on demand, by properties of
    `env.unwrapped`: `definite` and `solution`; with `answers="any"` that is a solution of the board, or, once a digit
    is wrong, of the board before it.

    ## Arguments

    ```python
    gymnasium.make("sudoku_env:Sudoku-v0", size=4, end_on="dead_end")
    gymnasium.make("sudoku_env:Sudoku-v0", source=PuzzlePool(default_puzzles(4), shuffled=True))
    gymnasium.make("sudoku_env:Sudoku-v0", source=PuzzlePool(Puzzles.of(["1...|..3.|.1..|...2"])))
    ```

    - `source`: where puzzles come from, a `PuzzlePool`, a `PromptPool` or any other `PuzzleSource`. Its puzzles tell
      the size n.
    - `size`, without a source: 4, 6, 9 (default) or 16, for `PuzzlePool(default_puzzles(size), shuffled=True)`.
    - `rules` (default `BoardRules()`), or in its place its arguments: `end_on` (`"error"` or `"dead_end"`; default
      `"error"`), `illegal_reward` (default -1.0), `answers` (`"one"` or `"any"`, every solution of a puzzle that may
      have several; default `"one"`) and `rule`, by which cells are definite, as in `definite_cells` (default
      `"singles"`, or `"backbone"` with `answers="any"`).
    - `render_mode` (`"ansi"`, `"rgb_array"` or none).

    Every reset draws a puzzle of the source. Where that is shuffled, the puzzle is rearranged by a random symmetry of
    Sudoku; else it stays as it is, and `reset(options={"index": i})` picks puzzle i.

    All randomness comes from `np_random`: it begins a stream when it is new (at the first reset and after
    `reset(seed=...)`), and later resets go on with that stream.

    ## Vector Environment

    `gymnasium.make_vec("sudoku_env:Sudoku-v0", num_envs=1024)` steps all boards in one kernel: see `SudokuVectorEnv`.

    ## Version History

    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012
    rules: BoardRules

    def __init__(
        self,
        source: PuzzleSource | None = None,
        rules: BoardRules | Mapping[str, Any] | None = None,
        *,
        size: int | None = None,
        render_mode: str | None = None,
        **shortcuts: Any,
    ) -> None:
        self.render_mode = check_render_mode(render_mode)
        self.source = source_of(source, size, 9, shuffled=True)
        (self.rules,) = parts_of(shortcuts, rules=(BoardRules, rules))
        self._state = BoardState(1, self.source, self.rules)
        self.size = size = self._state.size
        self.observation_space = spaces.Box(0, size, (size * size,), np.uint8)
        self.action_space = spaces.Discrete(size**3)  # type: ignore[assignment]
        self._actions = size**3
        self._row = np.ones(1, dtype=bool)
        self._begun = False
        self._over = True

    @property
    def definite(self) -> NDArray[np.bool_]:
        """bool `(n²,)`, a new array: the blank cells that are definite (S1); none once a digit is wrong.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        return self._playing().definite[0]

    @property
    def solution(self) -> NDArray[np.int64]:
        """int64 `(n²,)`, a new array: the digits 1..n.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        return self._playing().solutions[0].astype(np.int64)

    def action_masks(self) -> NDArray[np.bool_]:
        """bool `(n³,)`, a new array: the legal actions, in the form that sb3-contrib's `MaskablePPO` asks for.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        return self._playing().action_masks()[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start with the next puzzle, as the class says.

        Raises:
            SudokuError: An option is unknown, or the index is not that of a puzzle that can be picked.
        """
        super().reset(seed=seed)
        state = self._state
        choice = chosen_index(options, state.given)
        state.streams.follow(self.np_random)
        state.deal(self._row, choice)
        self._begun, self._over = True, False
        info = {"action_mask": state.masks[0].copy(), "error": False, "illegal": False, "steps": 0}
        return state.boards[0].copy(), info

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Write one digit, as the class says.

        Raises:
            gymnasium.error.ResetNeeded: The episode is over, or none has begun.
            gymnasium.error.InvalidAction: The action is no integer, or outside the action space.
        """
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over or has not begun; call reset() first")
        try:
            number = index(action)
        except TypeError:
            number = None
        if number is None or isinstance(action, bool):
            given = f"{type(action).__name__}: action {repr(action)[:200]}"
            raise gymnasium.error.InvalidAction(f"expected an integer, got {given}")
        if not 0 <= number < self._actions:
            raise gymnasium.error.InvalidAction(f"action {number} is outside 0..{self._actions - 1}")
        state = self._state
        if state.by_kernel:
            board = np.empty(self.size * self.size, np.uint8)
            mask = np.empty(self._actions, np.int8)
            reward, steps, error, illegal, over = play_one(number, board, mask, *state.moved)
        else:
            reward = float(state.play(np.array([number]))[0])
            board, mask = state.boards[0].copy(), state.masks[0].copy()
            steps, _, *flags = state.status[0].tolist()
            error, illegal, over = map(bool, flags)
        self._over = over
        return board, reward, over, False, {"action_mask": mask, "error": error, "illegal": illegal, "steps": steps}

    def render(self) -> str | NDArray[np.uint8] | None:
        """The board as text with terminal colors (`"ansi"`) or uint8 `(height, width, 3)` (`"rgb_array"`)."""
        state = self._playing()
        return None if self.render_mode is None else render_view(state.view(0), self.render_mode)

    def _playing(self) -> BoardState:
        if not self._begun:
            raise gymnasium.error.ResetNeeded("no episode has begun; call reset() first")
        return self._state
