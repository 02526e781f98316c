"""Many environments in one: what both vector environments share, and the one of `Sudoku-v0`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from sudoku_env.envs.board_env import SudokuEnv
from sudoku_env.envs.board_state import BoardRules, BoardState
from sudoku_env.envs.episodes import Streams, as_integers, check_render_mode, chosen_index, render_view
from sudoku_env.envs.sampling import sample_legal
from sudoku_env.envs.sources import PuzzleSource, source_of
from sudoku_env.errors import SudokuError
from sudoku_env.parts import parts_of

if TYPE_CHECKING:
    from sudoku_env.envs.response_state import ResponseState

Observation = TypeVar("Observation", bound=np.generic)


class BatchEnv(gymnasium.vector.VectorEnv[NDArray[Observation], NDArray[np.int64], NDArray[Any]], ABC):
    """A vector environment whose episodes are played by one state with a row for each of them.

    It behaves as `gymnasium.vector.SyncVectorEnv` does with the single environments: row i of one that is seeded with s
    is the single environment seeded with s + i, infos have their `_key` masks, and the three autoreset modes reset when
    they say. Unlike there, `np_random` is one generator. All arrays returned are new.
    """

    _state: "BoardState | ResponseState"
    _streams: Streams
    _given: int

    def __init__(
        self,
        num_envs: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Discrete | spaces.MultiDiscrete,
        render_mode: str | None,
        autoreset_mode: str | AutoresetMode,
    ) -> None:
        if num_envs < 1:
            raise SudokuError(f"num_envs must be at least 1, got {num_envs}")
        self.num_envs = num_envs
        self.render_mode = check_render_mode(render_mode)
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.observation_space = batch_space(observation_space, num_envs)
        self.action_space = batch_space(action_space, num_envs)
        counts = action_space.n if isinstance(action_space, spaces.Discrete) else action_space.nvec
        self._action_bounds = action_space.start, action_space.start + counts
        self._mode = AutoresetMode(autoreset_mode)
        self.metadata = {**SudokuEnv.metadata, "autoreset_mode": self._mode}
        self._begun = np.zeros(num_envs, dtype=bool)

    @property
    def definite(self) -> NDArray[np.bool_]:
        """bool `(B, n²)`, a new array: the blank cells that are definite (S1); none once a cell is wrong."""
        self._require_episodes()
        return self._state.definite.copy()

    @property
    def solutions(self) -> NDArray[np.int64]:
        """int64 `(B, n²)`, a new array: the digits 1..n."""
        self._require_episodes()
        return self._state.solutions.astype(np.int64)

    def action_masks(self) -> NDArray[np.bool_]:
        """bool `(B, A)`, a new array: what `action_masks` of the single environments gives."""
        self._require_episodes()
        return self._state.action_masks()

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Observation], dict[str, Any]]:
        """Begin episodes.

        Args:
            seed: s for the seeds s, s + 1, …; or a seed for each environment, None to let it go on with its stream.
            options: `index`, as in the single environment, for all; `reset_mask`, bool `(B,)`, resets only those, and
                infos then hold zeros for the others.

        Raises:
            SudokuError: The number of seeds, the mask, or an option is wrong.
        """
        rest = dict(options or {})
        rows = self._reset_mask(rest.pop("reset_mask", None))
        choice = chosen_index(rest, self._given)
        self._seed(seed, rows)
        self._deal(rows, choice)
        self._begun |= rows
        return self._observe(), _as_infos(self._state.columns(), rows)

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[Observation], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take one action in each environment.

        Args:
            actions: integers of the shape of `action_space`; ignored where an environment resets instead.

        Returns:
            Observations `(B, ...)`, rewards float64 `(B,)`, terminated and truncated (never) bool `(B,)`, infos.

        Raises:
            gymnasium.error.ResetNeeded: An episode has not begun, or is over and the mode is DISABLED.
            gymnasium.error.InvalidAction: An action is outside the action space; nothing was changed.
        """
        waiting = self._state.over.copy()
        if not self._begun.all() or (self._mode is AutoresetMode.DISABLED and waiting.any()):
            row = int(np.argmax(~self._begun | waiting))
            raise gymnasium.error.ResetNeeded(f"episode {row} is over or has not begun; call reset() first")
        rewards = self._state.play(self._check_actions(actions, waiting))
        if waiting.any():
            self._deal(waiting, -1)
        terminated = self._state.over.copy()
        infos: dict[str, Any] = {}
        # What has ended is told as its end before the next beginning takes its place.
        if self._mode is AutoresetMode.SAME_STEP and terminated.any():
            final = np.full(self.num_envs, None, dtype=object)
            observations = self._observe()
            for row in np.flatnonzero(terminated).tolist():
                final[row] = observations[row]
            infos = {"final_obs": final, "_final_obs": terminated.copy()}
            infos |= {"final_info": _as_infos(self._state.columns(), terminated), "_final_info": terminated.copy()}
            self._deal(terminated, -1)
        infos |= _as_infos(self._state.columns(), np.ones(self.num_envs, dtype=bool))
        return self._observe(), rewards, terminated, np.zeros(self.num_envs, dtype=bool), infos

    def render(self) -> tuple[Any, ...] | None:
        """One frame for each environment, as the single environment draws it; None without a render mode.

        Raises:
            gymnasium.error.ResetNeeded: An episode has not begun.
        """
        self._require_episodes()
        if self.render_mode is None:
            return None
        return tuple(render_view(self._state.view(row), self.render_mode) for row in range(self.num_envs))

    @abstractmethod
    def _deal(self, rows: NDArray[np.bool_], choice: int) -> None:
        """Begin an episode in the rows, with the given puzzle `choice` or a random one if it is −1."""

    @abstractmethod
    def _observe(self) -> NDArray[Observation]:
        """The observations `(B, ...)`, a new array."""

    def _require_episodes(self) -> None:
        if not self._begun.all():
            raise gymnasium.error.ResetNeeded(f"episode {int(np.argmin(self._begun))} has not begun; call reset()")

    def _reset_mask(self, mask: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        if mask is None:
            return np.ones(self.num_envs, dtype=bool)
        if not (isinstance(mask, np.ndarray) and mask.dtype == bool and mask.shape == (self.num_envs,) and mask.any()):
            raise SudokuError(f"reset_mask must be a bool array of shape ({self.num_envs},) with a True, got {mask!r}")
        return mask.copy()

    def _seed(self, seed: int | Sequence[int | None] | None, rows: NDArray[np.bool_]) -> None:
        """Begin the streams of the rows that have a seed, and those of all rows if `np_random` was replaced."""
        self._streams.follow(self.np_random)
        if seed is None:
            return
        if isinstance(seed, Sequence | np.ndarray):
            seeds = list(seed)
        else:
            first = index(seed)
            super().reset(seed=first)
            self._streams.accept(self.np_random)
            seeds = list(range(first, first + self.num_envs))
        if len(seeds) != self.num_envs:
            raise SudokuError(f"{len(seeds)} seeds for {self.num_envs} environments; pass one each, or an integer")
        for row, one in enumerate(seeds):
            if rows[row] and one is not None:
                self._streams.seed(row, index(one))

    def _check_actions(self, actions: NDArray[np.int64], waiting: NDArray[np.bool_]) -> NDArray[np.int64]:
        shape = self.action_space.shape or ()
        given = as_integers(actions, shape, "a row for each environment")
        lowest, beyond = self._action_bounds
        outside = (given < lowest) | (given >= beyond)
        if outside.any():
            wrong = outside.reshape(self.num_envs, -1).any(1) & ~waiting
            if wrong.any():
                row = int(np.argmax(wrong))
                raise gymnasium.error.InvalidAction(
                    f"action {given[row].tolist()} of environment {row} is outside {self.single_action_space}"
                )
        return np.ascontiguousarray(given, dtype=np.int64)


class SudokuVectorEnv(BatchEnv[np.uint8]):
    """B boards of `Sudoku-v0` that one kernel steps; see `SudokuEnv` for actions, observations, rewards and ends.

    ```python
    envs = gymnasium.make_vec("sudoku_env:Sudoku-v0", num_envs=1024, end_on="dead_end")
    obs, infos = envs.reset(seed=0)
    obs, rewards, terminated, truncated, infos = envs.step(envs.sample_actions())
    ```

    Observations are uint8 `(B, n²)`, actions int64 `(B,)`. `infos` holds `action_mask` int8 `(B, n³)`, `error` and
    `illegal` bool `(B,)`, `steps` int64 `(B,)`, and for each key the bool `(B,)` mask `_key` of who reported it.

    Args:
        num_envs: B.
        source: The source of the puzzles, as in `SudokuEnv`.
        rules: The rules of play, as in `SudokuEnv`.
        size: The size of the package's puzzles, as in `SudokuEnv`.
        render_mode: How `render` draws, as in `SudokuEnv`.
        autoreset_mode: `"NextStep"`: the step after the end resets and ignores the action. `"SameStep"`: the step that
            ends an episode returns the next one's beginning, and the end in `infos["final_obs"]` and `"final_info"`.
            `"Disabled"`: `reset(options={"reset_mask": terminated})` is yours to call.
        shortcuts: Arguments of `BoardRules` in place of `rules`.
    """

    rules: BoardRules
    _state: BoardState

    def __init__(
        self,
        num_envs: int = 1,
        source: PuzzleSource | None = None,
        rules: BoardRules | Mapping[str, Any] | None = None,
        *,
        size: int | None = None,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        **shortcuts: Any,
    ) -> None:
        self.source = source_of(source, size, 9, shuffled=True)
        (self.rules,) = parts_of(shortcuts, rules=(BoardRules, rules))
        self._state = BoardState(num_envs, self.source, self.rules)
        self._streams, self._given = self._state.streams, self._state.given
        self.size = size = self._state.size
        single_observation = spaces.Box(0, size, (size * size,), np.uint8)
        super().__init__(num_envs, single_observation, spaces.Discrete(size**3), render_mode, autoreset_mode)

    def sample_actions(self) -> NDArray[np.int64]:
        """int64 `(B,)`, a random legal action for each board, 0 where there is none.

        They are drawn with the generator of `action_space`, so `action_space.seed(...)` makes them reproducible.
        """
        self._require_episodes()
        return np.asarray(sample_legal(self._state.masks, self.action_space.np_random))

    def _deal(self, rows: NDArray[np.bool_], choice: int) -> None:
        self._state.deal(rows, choice)

    def _observe(self) -> NDArray[np.uint8]:
        return self._state.boards.copy()


def _as_infos(columns: dict[str, NDArray[Any]], rows: NDArray[np.bool_]) -> dict[str, Any]:
    """Infos in Gymnasium's form: zeros (None for objects) in rows that do not report, and a mask for each key."""
    infos: dict[str, Any] = {}
    silent = ~rows
    for key, column in columns.items():
        if silent.any():
            column[silent] = None if column.dtype == object else 0
        infos[key], infos[f"_{key}"] = column, rows.copy()
    return infos
