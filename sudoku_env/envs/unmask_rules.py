"""What an action of `SudokuUnmask-v0` may hold and what it earns: the arguments that all its environments share."""

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sudoku_env.envs.dynamics import OnError, check_lam, check_on_error
from sudoku_env.envs.episodes import check_illegal_reward
from sudoku_env.errors import SudokuError
from sudoku_env.kernels.unmask import NO_POSITION


class UnmaskRules(NamedTuple):
    """The rules of play.

    Attributes:
        lam: λ, the reward of a position outside the map.
        illegal_reward: The reward of an illegal action.
        tokens_per_step: k, most positions that an action fills.
        on_error: What a wrong token in a cell does.
    """

    lam: float
    illegal_reward: float
    tokens_per_step: int
    on_error: OnError

    @classmethod
    def checked(cls, lam: float, illegal_reward: float, tokens_per_step: int, on_error: str) -> "UnmaskRules":
        """The rules that the arguments of an environment make.

        Raises:
            SudokuError: One of them is out of range or unknown.
        """
        return cls(
            check_lam(lam),
            check_illegal_reward(illegal_reward),
            _check_tokens_per_step(tokens_per_step),
            check_on_error(on_error),
        )

    def action_space(self, length: int, vocabulary: int) -> spaces.MultiDiscrete:
        """The actions on a response of `length` tokens: a position and a token, shape `(2,)`, or k rows of these.

        Every row but the first has the position −1 as well, for none.
        """
        if self.tokens_per_step == 1:
            return spaces.MultiDiscrete([length, vocabulary])
        start = np.zeros((self.tokens_per_step, 2), dtype=np.int64)
        start[1:, 0] = NO_POSITION
        return spaces.MultiDiscrete(np.array([length, vocabulary]) - start, start=start)

    def action_masks(self, masked: NDArray[np.bool_], mask_id: int, vocabulary: int) -> NDArray[np.bool_]:
        """The masks of an action's factors, one after the other: of each row the position, then the token.

        Args:
            masked: bool `(B, R)`, the masked positions.
            mask_id: The mask token.
            vocabulary: Number of token ids.

        Returns:
            bool `(B, k (R + vocabulary) + k − 1)`, a new array: every row but the first begins with the position −1.
        """
        tokens = np.ones((len(masked), vocabulary), dtype=bool)
        tokens[:, mask_id] = False
        none = np.ones((len(masked), 1), dtype=bool)
        return np.concatenate([masked, tokens, *[none, masked, tokens] * (self.tokens_per_step - 1)], axis=1)


def _check_tokens_per_step(tokens_per_step: Any) -> int:
    """k as an integer.

    Raises:
        SudokuError: It is none of at least 1.
    """
    if not isinstance(tokens_per_step, int | np.integer) or isinstance(tokens_per_step, bool) or tokens_per_step < 1:
        raise SudokuError(f"tokens_per_step must be an integer of at least 1, got {tokens_per_step!r}")
    return int(tokens_per_step)
