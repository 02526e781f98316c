"""A small flat action space over `SudokuUnmask-v0`, for agents that need one.

Position × vocabulary has millions of actions with the tokenizer of a language model, almost all of them pointless. A
`FlatActions` table keeps those that can be right: each digit in each cell, each tail token at each position outside the
map, and where cells can be taken back, masking each cell again. `FlatUnmask` and `FlatUnmaskVector` put it over the
environment and its vector version.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from sudoku_env.envs.episodes import as_integers
from sudoku_env.envs.response_state import Responses
from sudoku_env.envs.unmask_env import UnmaskEnv
from sudoku_env.envs.unmask_vector_env import SudokuUnmaskVectorEnv
from sudoku_env.errors import SudokuError
from sudoku_env.prompts.tokens import TokenLayout

OBSERVATIONS = ("tokens", "compact")


@dataclass(frozen=True, eq=False)
class FlatActions:
    """Numbers 0..A-1 for the pairs of a response position and a token that can be right.

    First come the cells, row by row, with the digits in order; then the positions outside the map with the tail tokens
    in the order given; with `take_back=True` the cells once more, to be masked again. Where every cell can be blank,
    the first n³ numbers are the actions of `Sudoku-v0`.

    Attributes:
        pairs: int64 `(A, 2)`, position and token of each number. Masking position p again is R + p with the first
            digit's token, which means nothing there.
        positions: int64 `(P,)`, the n² cells and then the free positions: what a compact observation shows.
        tokens: int64 `(n + T,)`, the digits' tokens and then the tail tokens.
    """

    pairs: NDArray[np.int64]
    positions: NDArray[np.int64]
    tokens: NDArray[np.int64]

    @classmethod
    def of(
        cls, responses: Responses, tail_tokens: Sequence[int] | None = None, take_back: bool = False
    ) -> "FlatActions":
        """The table of an environment's responses.

        Args:
            responses: The environment's responses, `env.unwrapped.responses`. Only the cells count that are blank in
                one of their puzzles.
            tail_tokens: Tokens allowed outside the map; None for the tokenizer's end-of-text token, or its pad token
                where it has none.
            take_back: Whether the environment lets cells be masked again.

        Raises:
            SudokuError: The given prompts do not share one size and layout, or a tail token is unknown, the mask, a
                digit or given twice, or there is none although the response has positions for it.
        """
        layouts = responses.layouts()
        first = layouts[0]
        if any(_places(layout) != _places(first) for layout in layouts):
            raise SudokuError("the prompts differ in size or layout; give each kind an environment of its own")
        masked = np.array(responses.start(0).token_ids[-responses.max_gen_length :]) == responses.mask_id
        free = np.setdiff1d(np.flatnonzero(masked), first.cell_positions)
        if tail_tokens is None:
            end = getattr(responses.tokenizer, "eos_token_id", None)
            tail_tokens = (responses.pad_id if end is None else end,)
        tail = _checked_tail(tail_tokens, first, responses.vocabulary, needed=free.size > 0)
        blank = np.any([board == 0 for board in responses.boards], axis=0)
        cells = first.cell_positions[blank]
        pairs = [np.stack(np.meshgrid(*pair, indexing="ij"), -1) for pair in ((cells, first.digit_ids), (free, tail))]
        if take_back:
            again = responses.max_gen_length + cells
            pairs.append(np.stack([again, np.full_like(again, first.digit_ids[0])], -1))
        table = cls(
            pairs=np.concatenate([block.reshape(-1, 2) for block in pairs]),
            positions=np.concatenate([first.cell_positions, free]),
            tokens=np.concatenate([first.digit_ids, tail]),
        )
        for array in (table.pairs, table.positions, table.tokens):
            array.flags.writeable = False
        return table

    def __len__(self) -> int:
        return len(self.pairs)

    def decode(self, actions: ArrayLike) -> NDArray[np.int64]:
        """Position and token, int64 `(..., 2)`, of numbers `(...)`.

        Raises:
            gymnasium.error.InvalidAction: A number is no integer in 0..A-1.
        """
        try:
            numbers = np.asarray(actions)
        except (TypeError, ValueError):  # rows of different lengths
            numbers = np.array(None)
        if numbers.dtype.kind not in "iu" or ((numbers < 0) | (numbers >= len(self))).any():
            raise gymnasium.error.InvalidAction(f"action {actions!r} is not within 0..{len(self) - 1}")
        return self.pairs[numbers]

    def encode(self, pairs: ArrayLike) -> NDArray[np.int64]:
        """The number, int64 `(...)`, of positions and tokens `(..., 2)`.

        Raises:
            SudokuError: A pair has no number, such as a digit outside the map.
        """
        wanted = np.asarray(pairs)
        if wanted.shape[-1:] != (2,):
            raise SudokuError(f"expected pairs of shape (..., 2), got {wanted.shape}")
        found = (wanted[..., None, :] == self.pairs).all(-1)  # (..., A)
        if not found.any(-1).all():
            raise SudokuError(f"{pairs!r} holds a pair that is not in the table; see FlatActions.pairs")
        return found.argmax(-1)

    def masks(self, allowed: NDArray[np.integer] | NDArray[np.bool_]) -> NDArray[np.int8]:
        """int8 `(..., A)`, a new array: 1 where the position is one of those in `allowed`.

        Args:
            allowed: `(..., R)`, nonzero at masked positions; with `take_back=True` `(..., 2R)`, followed by those that
                can be masked again.
        """
        return (allowed[..., self.pairs[:, 0]] != 0).astype(np.int8)

    def masks_of(self, info: dict[str, Any]) -> NDArray[np.int8]:
        """int8 `(..., A)`, a new array: 1 for the legal actions by `info["masked"]` and `info["remaskable"]`."""
        return self.masks(np.concatenate([info[key] for key in ("masked", "remaskable") if key in info], axis=-1))

    def compact(self, responses: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 `(..., P)`: 0 for a mask, d for digit d, n + k for tail token k, of responses `(..., R)`."""
        shown = responses[..., self.positions, None] == self.tokens  # (..., P, n + T)
        return np.where(shown.any(-1), shown.argmax(-1) + 1, 0)

    def observation_space(self) -> spaces.MultiDiscrete:
        """The space of one compact observation."""
        return spaces.MultiDiscrete([len(self.tokens) + 1] * len(self.positions))


class _Flat:
    """What the wrappers of one environment and of many have in common."""

    _unmask: UnmaskEnv | SudokuUnmaskVectorEnv

    def _begin(
        self, unmask: UnmaskEnv | SudokuUnmaskVectorEnv, tail_tokens: Sequence[int] | None, observation: str
    ) -> None:
        if (count := unmask.rules.tokens_per_step) > 1:
            raise SudokuError(
                f"a flat action is one pair, and the environment takes up to {count}; leave out tokens_per_step"
            )
        if observation not in OBSERVATIONS:
            raise SudokuError(f"observation {observation!r} is unknown; choose one of {OBSERVATIONS}")
        self._unmask, self._compact = unmask, observation == "compact"
        self.actions = FlatActions.of(unmask.responses, tail_tokens, unmask.rules.take_back)

    def action_masks(self) -> NDArray[np.bool_]:
        """bool `(A,)`, or `(B, A)` of many, a new array: the legal actions, for sb3-contrib's `MaskablePPO`.

        Raises:
            gymnasium.error.ResetNeeded: An episode has not begun.
        """
        return self.actions.masks(self._unmask.action_masks()[..., : -self._unmask.vocabulary]).astype(bool)

    def _observe(self, obs: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.actions.compact(obs[..., -self._unmask.max_gen_length :]) if self._compact else obs


class FlatUnmask(_Flat, gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """`SudokuUnmask-v0` with a `Discrete` action for each sensible pair of position and token.

    `info["action_mask"]`, int8 `(A,)`, and `action_masks()` are 1 for the pairs whose position is still masked, and
    with `take_back=True` for the cells that can be masked again. Rewards and the end of an episode are the
    environment's.

    ```python
    env = FlatUnmask(gymnasium.make("sudoku_env:SudokuUnmask-v0"), observation="compact")
    ```

    Attributes:
        actions: The `FlatActions` table, with `decode` and `encode`.

    Args:
        env: A `SudokuUnmask-v0`.
        tail_tokens: The tokens allowed outside the map, as in `FlatActions.of`.
        observation: "tokens" keeps the environment's. "compact" is `MultiDiscrete([n + T + 1] * P)`, see
            `FlatActions.compact`: what stands in the cells and the free positions, without prompt and separators.

    Raises:
        SudokuError: The environment is another one or takes several tokens a step, the observation is unknown, or
            `FlatActions.of` refuses the rest.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], tail_tokens: Sequence[int] | None = None, observation: str = "tokens"
    ) -> None:
        RecordConstructorArgs.__init__(self, tail_tokens=tail_tokens, observation=observation)
        gymnasium.Wrapper.__init__(self, env)
        if not isinstance(env.unwrapped, UnmaskEnv):
            raise SudokuError(f"FlatUnmask wraps SudokuUnmask-v0, not {env.unwrapped}; Sudoku-v0 is flat as it is")
        self._begin(env.unwrapped, tail_tokens, observation)
        self.action_space = spaces.Discrete(len(self.actions))
        if self._compact:
            self.observation_space = self.actions.observation_space()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start with the next prompt."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._observe(obs), self._extend(info)

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Write one token, or mask a cell again.

        Raises:
            gymnasium.error.ResetNeeded: The episode is over, or none has begun.
            gymnasium.error.InvalidAction: The action is outside the action space.
        """
        number = as_integers(action, (), "the number of one pair")
        obs, reward, terminated, truncated, info = self.env.step(self.actions.decode(number))
        return self._observe(obs), reward, terminated, truncated, self._extend(info)

    def _extend(self, info: dict[str, Any]) -> dict[str, Any]:
        return info | {"action_mask": self.actions.masks_of(info)}


class FlatUnmaskVector(_Flat, VectorWrapper):
    """`FlatUnmask` for the vector environment: actions int64 `(B,)`, masks `(B, A)`, observations with B rows.

    ```python
    envs = FlatUnmaskVector(gymnasium.make_vec("sudoku_env:SudokuUnmask-v0", num_envs=64))
    ```

    The attributes, arguments and errors are those of `FlatUnmask`.
    """

    def __init__(
        self, env: VectorEnv[Any, Any, Any], tail_tokens: Sequence[int] | None = None, observation: str = "tokens"
    ) -> None:
        super().__init__(env)
        if not isinstance(env.unwrapped, SudokuUnmaskVectorEnv):
            raise SudokuError(
                f"FlatUnmaskVector wraps the vector environment of SudokuUnmask-v0, not {env.unwrapped}; one of single "
                "environments takes FlatUnmask around each of them"
            )
        self._begin(env.unwrapped, tail_tokens, observation)
        self.single_action_space = spaces.Discrete(len(self.actions))
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        if self._compact:
            self.single_observation_space = self.actions.observation_space()
            self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes, as `SudokuUnmaskVectorEnv` does."""
        obs, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        return self._observe(obs), self._extend(infos)

    def step(self, actions: NDArray[np.int64]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Write one token in each environment, as `SudokuUnmaskVectorEnv` does."""
        numbers = as_integers(actions, (self.num_envs,), "one for each environment")
        obs, rewards, terminated, truncated, infos = self.env.step(self.actions.decode(numbers))
        return self._observe(obs), rewards, terminated, truncated, self._extend(infos)

    def _extend(self, infos: dict[str, Any]) -> dict[str, Any]:
        extended = infos | {"action_mask": self.actions.masks_of(infos), "_action_mask": infos["_masked"].copy()}
        if "final_info" in infos:
            extended["final_info"] = self._extend(infos["final_info"])
            extended["final_obs"] = infos["final_obs"].copy()
            for row in np.flatnonzero(infos["_final_obs"]):
                extended["final_obs"][row] = self._observe(infos["final_obs"][row])
        return extended


def _places(layout: TokenLayout) -> tuple[bytes, bytes]:
    return layout.cell_positions.tobytes(), layout.digit_ids.tobytes()


def _checked_tail(tail: Sequence[int], layout: TokenLayout, vocabulary: int, needed: bool) -> NDArray[np.int64]:
    if needed and not len(tail):
        raise SudokuError("the response has positions outside the map; pass a tail token, or a smaller max_gen_length")
    if len(set(tail)) < len(tail):
        raise SudokuError(f"tail_tokens {list(tail)} holds a token twice; give each once")
    for token in tail:
        if not 0 <= token < vocabulary or token == layout.mask_id or token in layout.digit_ids:
            raise SudokuError(
                f"tail token {token} is the mask, a digit or outside the vocabulary of {vocabulary}; leave it out"
            )
    return np.array(tail, dtype=np.int64)
