"""What an action of `SudokuUnmask-v0` may hold, what it earns, and when an episode ends."""

from dataclasses import dataclass
from math import inf
from typing import get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sudoku_env.answers import Answers, Guard, check_known, definite_rule
from sudoku_env.envs.dynamics import OnError
from sudoku_env.envs.episodes import check_count, check_number
from sudoku_env.errors import SudokuError
from sudoku_env.kernels.unmask import NO_POSITION


@dataclass(frozen=True)
class UnmaskRules:
    """The rules of `SudokuUnmask-v0`.

    Attributes:
        lam: λ, the reward of a position outside the map.
        illegal_reward: The reward of an illegal action.
        tokens_per_step: k, most positions that an action fills.
        on_error: What a wrong token in a cell does; nothing of it where cells can be taken back.
        take_back: Whether cells that an action has filled can be masked again.
        error_cost: c, what a wrong token in a cell costs where cells can be taken back; None: 1.
        max_steps: Most steps of an episode in which cells can be taken back or pairs refused; None is twice the masks
            at its start.
        rule: The rule by which cells are definite, as in `definite_cells`. None: "singles", or "backbone" where any
            answer is right.
        guard: Which boards may stand; a pair that would break that is refused, and its position stays masked. None
            refuses nothing.

    Raises:
        SudokuError: A rule is out of range or unknown, or does not go with `take_back` or a `guard`.
    """

    lam: float = 0.5
    illegal_reward: float = -1.0
    tokens_per_step: int = 1
    on_error: OnError = "end"
    take_back: bool = False
    error_cost: float | None = None
    max_steps: int | None = None
    rule: str | None = None
    guard: Guard | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.take_back, bool | np.bool_):
            raise SudokuError(f"take_back must be True or False, got {self.take_back!r}")
        cost, wanted = self.error_cost, "larger than 0 and finite"
        checked = {
            "lam": check_number("lam", self.lam, "0 or larger and finite", lambda lam: 0 <= lam < inf),
            "illegal_reward": check_number("illegal_reward", self.illegal_reward),
            "tokens_per_step": check_count("tokens_per_step", self.tokens_per_step),
            "on_error": check_known("on_error", self.on_error, OnError),
            "take_back": bool(self.take_back),
            "error_cost": None if cost is None else check_number("error_cost", cost, wanted, lambda c: 0 < c < inf),
            "max_steps": None if self.max_steps is None else check_count("max_steps", self.max_steps),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        definite_rule(self.rule, "one")
        if self.take_back and self.on_error != "end":
            raise SudokuError(
                f"on_error={self.on_error!r} does not go with take_back=True, where a wrong token costs and stays "
                "until it is taken back; leave out one of the two"
            )
        if self.guard not in (None, *get_args(Guard)):
            raise SudokuError(f"guard={self.guard!r} is unknown; use one of {get_args(Guard)} or None")
        if self.guard is not None and (self.take_back or self.on_error != "end"):
            raise SudokuError(
                f"guard={self.guard!r} refuses what take_back={self.take_back!r} and on_error={self.on_error!r} would "
                "mend; leave out one of the two"
            )
        max_steps = None if self.guard else self.max_steps
        if not self.take_back and (self.error_cost, max_steps) != (None, None):
            raise SudokuError(
                f"error_cost={self.error_cost!r} and max_steps={self.max_steps!r} are for take_back=True, without "
                "which an error earns 0 and the masks limit the steps (unless a guard refuses some); pass take_back="
                "True or leave them out"
            )

    def check_answers(self, answers: Answers) -> None:
        """Refuse answers that do not go with these rules.

        Raises:
            SudokuError: Any answer is right, and wrong cells are to be corrected or taken back: a whole action is wrong
                then, and no cell of it more than another.
        """
        for name, value, default in (("on_error", self.on_error, "end"), ("take_back", self.take_back, False)):
            if answers == "any" and value != default:
                raise SudokuError(
                    f'{name}={value!r} does not go with answers="any", where an action is wrong as a whole and no cell '
                    "has a digit of its own to be corrected to; leave out one of the two"
                )

    @property
    def wrong_costs(self) -> float:
        """What a wrong token in a cell costs: c, or 0 where it cannot be taken back."""
        if self.error_cost is not None:
            return self.error_cost
        return 1.0 if self.take_back else 0.0

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
