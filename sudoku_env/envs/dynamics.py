"""One decision of the unmasking process: transition, reward and termination, for a batch of responses.

The environments call `step_batch`; the roll-out of `dllm_rl` pays the same rewards on its own device, and a test holds
the two to each other. The rules: docs/environments.md, "The reward of an action".
"""

from math import inf
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudoku_env.errors import SudokuError


class StepBatch(NamedTuple):
    """What one action did to each of B responses.

    Attributes:
        responses: int64 `(B, R)`, a new array: the responses after the action.
        rewards: float64 `(B,)`, the reward r(s, a).
        errors: bool `(B,)`, whether the action put anything but the solution's digit in a cell; the episode ends.
        complete: bool `(B,)`, whether no mask is left; the episode ends.
    """

    responses: NDArray[np.int64]
    rewards: NDArray[np.float64]
    errors: NDArray[np.bool_]
    complete: NDArray[np.bool_]


def check_lam(lam: float) -> float:
    """λ itself, as a float.

    Raises:
        SudokuError: It is no finite number, or negative.
    """
    if not isinstance(lam, Real) or not 0 <= lam < inf:
        raise SudokuError(f"lam must be 0 or larger and finite, got {lam!r}")
    return float(lam)


def unmask_reward(in_map: ArrayLike, definite: ArrayLike, correct: ArrayLike, lam: float) -> NDArray[np.float64]:
    """Reward of an action: λ outside the map, 1 for the right digit in a definite cell, else 0.

    Args:
        in_map: bool `(...)`, whether the position is a cell of the Sudoku map.
        definite: bool `(...)`, whether that cell is definite before the action (S1); ignored outside the map.
        correct: bool `(...)`, whether the token is the solution's digit; ignored outside the map.
        lam: λ, the reward of any token at a position outside the map (S2).

    Returns:
        float64 of the arguments' broadcast shape.
    """
    return np.where(in_map, np.logical_and(definite, correct), np.float64(lam))


def step_batch(
    responses: NDArray[np.int64],
    positions: NDArray[np.int64],
    tokens: NDArray[np.int64],
    *,
    cell_positions: NDArray[np.int64],
    digit_ids: NDArray[np.int64],
    mask_id: int,
    solutions: NDArray[np.uint8],
    definite: NDArray[np.bool_],
    lam: float,
) -> StepBatch:
    """Write one token into each response and judge it.

    Args:
        responses: int64 `(B, R)`, token ids; `mask_id` where nothing is written yet. Left unchanged.
        positions: int64 `(B,)`, response positions to fill, each masked so far.
        tokens: int64 `(B,)`, the token ids to write there, not the mask.
        cell_positions: int64 `(n²,)`, response position of each cell.
        digit_ids: int64 `(n,)`, token id of each digit 1..n.
        mask_id: Token id of the mask.
        solutions: uint8 `(B, n²)`, the digits 1..n that solve each puzzle.
        definite: bool `(B, n²)`, the cells that are definite before the action (S1).
        lam: λ, the reward outside the map.

    Raises:
        SudokuError: A position lies outside the response or is filled already, a token is the mask, a solution holds a
            0, or `check_lam` refuses λ.
    """
    lam = check_lam(lam)
    batch, length = responses.shape
    if batch == 0:
        none = np.zeros(0, dtype=bool)
        return StepBatch(responses.copy(), np.zeros(0), none, none.copy())
    outside = (positions < 0) | (positions >= length)
    if np.count_nonzero(outside):
        raise SudokuError(f"position {positions[outside][0]} lies outside the response of {length} tokens")
    rows = np.arange(batch)
    masked = responses == mask_id
    open_before = masked[rows, positions]
    if np.count_nonzero(open_before) < batch:
        row = int(np.argmin(open_before))
        raise SudokuError(f"position {positions[row]} of response {row} is filled already; choose a masked one")
    if np.count_nonzero(tokens == mask_id):
        row = int(np.argmax(tokens == mask_id))
        raise SudokuError(f"response {row}: the mask token {mask_id} fills nothing; exclude it from the policy")

    cell_at = np.full(length, -1)
    cell_at[cell_positions] = np.arange(len(cell_positions))
    cells = cell_at[positions]  # (B,), -1 outside the map
    in_map = cells >= 0
    digits = solutions[rows, cells].astype(np.int64)
    if np.count_nonzero(digits) < batch:
        raise SudokuError(f"response {int(np.argmin(digits))} has no solution to compare with; drop unsolvable puzzles")
    correct = digit_ids[digits - 1] == tokens
    after = responses.copy()
    after[rows, positions] = tokens
    return StepBatch(
        responses=after,
        rewards=unmask_reward(in_map, definite[rows, cells], correct, lam),
        errors=in_map & ~correct,
        complete=masked.sum(1) == 1,
    )
