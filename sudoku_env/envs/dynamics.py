"""One decision of the unmasking process, on one position or several: transition, reward and end, for a batch.

The roll-out of `dllm_rl` pays the same rewards on its own device, and tests hold the two to each other. The rules:
docs/environments.md, "The reward of an action".
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

OnError = Literal["end", "correct"]
"""What a wrong token in a cell does: it ends the episode, or the solution's digit is written in its place."""


class StepBatch(NamedTuple):
    """What one action did to each of B responses.

    Attributes:
        responses: int64 `(B, R)`, the responses after the action.
        rewards: float64 `(B,)`, the reward r(s, a).
        wrong: bool `(B, R)`, the cells' positions at which the action has anything but the solution's digit.
        errors: bool `(B,)`, whether there is one; the episode ends unless errors are corrected.
        complete: bool `(B,)`, whether no mask is left; the episode ends.
    """

    responses: NDArray[np.int64]
    rewards: NDArray[np.float64]
    wrong: NDArray[np.bool_]
    errors: NDArray[np.bool_]
    complete: NDArray[np.bool_]


def unmask_reward(
    in_map: ArrayLike, definite: ArrayLike, correct: ArrayLike, lam: float, error_cost: float = 0.0
) -> NDArray[np.float64]:
    """Reward of one position and token: λ outside the map, 1 for the right digit in a definite cell, else 0.

    Args:
        in_map: bool `(...)`, whether the position is a cell of the Sudoku map.
        definite: bool `(...)`, whether that cell is definite before the action (S1); ignored outside the map.
        correct: bool `(...)`, whether the token is the solution's digit; ignored outside the map.
        lam: λ, the reward of any token at a position outside the map (S2).
        error_cost: c; a wrong token in a cell earns −c.

    Returns:
        float64 of the arguments' broadcast shape.
    """
    in_cell = np.where(correct, np.where(definite, 1.0, 0.0), 0.0 - error_cost)
    return np.where(in_map, in_cell, np.float64(lam))


def remask_reward(correct: ArrayLike, error_cost: float) -> NDArray[np.float64]:
    """Reward of masking a filled cell again: its cost back for a wrong token, −1 for the solution's digit.

    A right digit earned at most 1 and a wrong one exactly −c when it was written, so that no sequence of actions that
    ends where it began has earned anything: docs/objective.md, "Taking back".

    Args:
        correct: bool `(...)`, whether the cell holds the solution's digit.
        error_cost: c, what a wrong token cost.

    Returns:
        float64 `(...)`.
    """
    return np.where(correct, -1.0, np.float64(error_cost))


def write_pairs(
    responses: NDArray[np.int64],
    rows: NDArray[np.int64],
    positions: NDArray[np.int64],
    tokens: NDArray[np.int64],
    cells: NDArray[np.int64],
    *,
    digit_ids: NDArray[np.int64],
    mask_id: int,
    solutions: NDArray[np.uint8],
    definite: NDArray[np.bool_],
    lam: float,
    on_error: OnError,
    error_cost: float = 0.0,
) -> StepBatch:
    """Write tokens into responses, unchecked, and judge them, all by the responses before.

    A pair whose token is the mask takes back what stands in a filled cell, for the reward of `remask_reward`. The other
    rewards are those of `unmask_reward`; a response gets the sum of its pairs.

    Args:
        responses: int64 `(B, R)`, token ids, the mask where nothing is written yet; they are changed.
        rows: int64 `(M,)`, the response that each pair is written into.
        positions: int64 `(M,)`, its position.
        tokens: int64 `(M,)`, its token.
        cells: int64 `(M,)`, the cell at its position, −1 outside the map.
        digit_ids: int64 `(n,)`, token id of each digit 1..n.
        mask_id: The mask token.
        solutions: uint8 `(B, n²)`, the digits 1..n that solve each puzzle.
        definite: bool `(B, n²)`, the cells that are definite before the action (S1).
        lam: λ, the reward of a position outside the map.
        on_error: Whether a wrong token in a cell is written ("end") or the solution's digit in its place ("correct").
        error_cost: c, what a wrong token costs, and what taking it back earns.
    """
    # Each pair by the state before.
    in_map, taken_back = cells >= 0, tokens == mask_id
    answers = digit_ids[solutions[rows, cells].astype(np.int64) - 1]
    correct = answers == tokens
    wrong = in_map & ~correct & ~taken_back
    earned = unmask_reward(in_map, definite[rows, cells], correct, lam, error_cost)
    if taken_back.any():
        earned[taken_back] = remask_reward((responses[rows, positions] == answers)[taken_back], error_cost)
    rewards = np.zeros(len(responses))
    np.add.at(rewards, rows, earned)

    # All of them are written at once.
    responses[rows, positions] = np.where(wrong, answers, tokens) if on_error == "correct" else tokens
    wrong_at = np.zeros(responses.shape, dtype=bool)
    wrong_at[rows, positions] = wrong
    errors = np.zeros(len(responses), dtype=bool)
    errors[rows[wrong]] = True
    return StepBatch(responses, rewards, wrong_at, errors, (responses != mask_id).all(1))
