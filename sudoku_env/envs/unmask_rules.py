"""What an action of `SudokuUnmask-v0` may hold and what it earns: the arguments that all its environments share."""

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sudoku_env.envs.dynamics import OnError, check_error_cost, check_lam, check_on_error
from sudoku_env.envs.episodes import check_illegal_reward
from sudoku_env.errors import SudokuError
from sudoku_env.kernels.unmask import NO_POSITION


class UnmaskRules(NamedTuple):
    """The rules of play.

    Attributes:
        lam: λ, the reward of a position outside the map.
        illegal_reward: The reward of an illegal action.
        tokens_per_step: k, most positions that an action fills.
        on_error: What a wrong token in a cell does; nothing of it where cells can be taken back.
        take_back: Whether cells that an action has filled can be masked again.
        error_cost: c, what a wrong token in a cell costs; 0 where it cannot be taken back.
        max_steps: Most steps of an episode in which cells can be taken back; None is twice the masks at its start.
    """

    lam: float
    illegal_reward: float
    tokens_per_step: int
    on_error: OnError
    take_back: bool
    error_cost: float
    max_steps: int | None

    @classmethod
    def checked(
        cls,
        lam: float,
        illegal_reward: float,
        tokens_per_step: int,
        on_error: str,
        take_back: bool,
        error_cost: float | None,
        max_steps: int | None,
    ) -> "UnmaskRules":
        """The rules that the arguments of an environment make.

        Raises:
            SudokuError: One of them is out of range or unknown, or does not go with `take_back`.
        """
        if not isinstance(take_back, bool | np.bool_):
            raise SudokuError(f"take_back must be True or False, got {take_back!r}")
        rules = cls(
            check_lam(lam),
            check_illegal_reward(illegal_reward),
            _check_count("tokens_per_step", tokens_per_step),
            check_on_error(on_error),
            bool(take_back),
            (float(take_back)) if error_cost is None else check_error_cost(error_cost),
            None if max_steps is None else _check_count("max_steps", max_steps),
        )
        if take_back and rules.on_error != "end":
            raise SudokuError(
                f"on_error={on_error!r} does not go with take_back=True, where a wrong token costs and stays until it "
                "is taken back; leave out one of the two"
            )
        if not take_back and (error_cost, max_steps) != (None, None):
            raise SudokuError(
                f"error_cost={error_cost!r} and max_steps={max_steps!r} are for take_back=True, without which an error "
                "earns 0 and the masks limit the steps; pass take_back=True or leave them out"
            )
        return rules

    def budget(self, masks: int) -> int:
        """Most steps of an episode that begins with so many masks."""
        return 2 * masks if self.max_steps is None else self.max_steps

    def action_space(self, length: int, vocabulary: int) -> spaces.MultiDiscrete:
        """The actions on a response of `length` tokens: a position and a token, shape `(2,)`, or k rows of these.

        Every row but the first has the position −1 as well, for none. With `take_back` there are twice as many
        positions: `length + ℓ` masks position ℓ again.
        """
        positions = self.positions(length)
        if self.tokens_per_step == 1:
            return spaces.MultiDiscrete([positions, vocabulary])
        start = np.zeros((self.tokens_per_step, 2), dtype=np.int64)
        start[1:, 0] = NO_POSITION
        return spaces.MultiDiscrete(np.array([positions, vocabulary]) - start, start=start)

    def positions(self, length: int) -> int:
        """How many values the position in an action has, but for −1, on a response of `length` tokens."""
        return 2 * length if self.take_back else length

    def action_masks(
        self, masked: NDArray[np.bool_], remaskable: NDArray[np.bool_], mask_id: int, vocabulary: int
    ) -> NDArray[np.bool_]:
        """The masks of an action's factors, one after the other: of each row the position, then the token.

        Args:
            masked: bool `(B, R)`, the masked positions.
            remaskable: bool `(B, R)`, the positions that can be masked again; ignored without `take_back`.
            mask_id: The mask token.
            vocabulary: Number of token ids.

        Returns:
            bool `(B, k (P + vocabulary) + k − 1)`, a new array, P being R or with `take_back` 2R: every row but the
            first begins with the position −1.
        """
        tokens = np.ones((len(masked), vocabulary), dtype=bool)
        tokens[:, mask_id] = False
        none = np.ones((len(masked), 1), dtype=bool)
        places = [masked, remaskable] if self.take_back else [masked]
        rest = [none, *places, tokens] * (self.tokens_per_step - 1)
        return np.concatenate([*places, tokens, *rest], axis=1)


def _check_count(name: str, count: Any) -> int:
    """A count as an integer.

    Raises:
        SudokuError: It is none of at least 1.
    """
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
        raise SudokuError(f"{name} must be an integer of at least 1, got {count!r}")
    return int(count)
