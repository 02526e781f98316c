"""One decision of the unmasking process, on one position or several: transition, reward and end, for a batch.

The environments call `write_pairs`, and `step_batch` does so after checking its arguments; the roll-out of `dllm_rl`
pays the same rewards on its own device, and tests hold the two to each other. The rules: docs/environments.md, "The
reward of an action".
"""

from math import inf
from numbers import Real
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudoku_env.errors import SudokuError
from sudoku_env.kernels.unmask import NO_POSITION

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


def check_lam(lam: float) -> float:
    """λ itself, as a float.

    Raises:
        SudokuError: It is no finite number, or negative.
    """
    if not isinstance(lam, Real) or not 0 <= lam < inf:
        raise SudokuError(f"lam must be 0 or larger and finite, got {lam!r}")
    return float(lam)


def check_on_error(on_error: str) -> OnError:
    """What a wrong token does, if it is known.

    Raises:
        SudokuError: It is unknown.
    """
    for known in get_args(OnError):
        if on_error == known:
            return known
    raise SudokuError(f"on_error={on_error!r} is unknown; use one of {get_args(OnError)}")


def check_error_cost(error_cost: float) -> float:
    """The cost of a wrong token that can be taken back, as a float.

    Raises:
        SudokuError: It is no finite number above 0.
    """
    if not isinstance(error_cost, Real) or not 0 < error_cost < inf:
        raise SudokuError(f"error_cost must be larger than 0 and finite, got {error_cost!r}")
    return float(error_cost)


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
    on_error: OnError = "end",
) -> StepBatch:
    """Write one token or several into each response and judge them, all by the response before.

    Args:
        responses: int64 `(B, R)`, token ids; `mask_id` where nothing is written yet. Left unchanged.
        positions: int64 `(B,)` or `(B, k)`, response positions to fill, each masked so far and each once; −1 for none
            behind the first column.
        tokens: int64 of the same shape, the token ids to write there, not the mask; ignored where there is no position.
        cell_positions: int64 `(n²,)`, response position of each cell.
        digit_ids: int64 `(n,)`, token id of each digit 1..n.
        mask_id: Token id of the mask.
        solutions: uint8 `(B, n²)`, the digits 1..n that solve each puzzle.
        definite: bool `(B, n²)`, the cells that are definite before the action (S1).
        lam: λ, the reward of a position outside the map.
        on_error: Whether a wrong token in a cell is written ("end") or the solution's digit in its place ("correct").

    Returns:
        New arrays; the reward is the sum of `unmask_reward` over the positions.

    Raises:
        SudokuError: A position lies outside the response, is filled already or comes twice, a token is the mask, a
            solution holds a 0, or `check_lam` or `check_on_error` refuses its argument.
    """
    lam, on_error = check_lam(lam), check_on_error(on_error)
    batch, length = responses.shape
    if batch == 0:
        none = np.zeros(0, dtype=bool)
        return StepBatch(responses.copy(), np.zeros(0), np.zeros((0, length), dtype=bool), none, none.copy())

    # The M pairs of all rows as one list.
    positions, tokens = positions.reshape(batch, -1), tokens.reshape(batch, -1)  # (B, k)
    outside = (positions < NO_POSITION) | (positions >= length)
    outside[:, 0] |= positions[:, 0] == NO_POSITION
    if np.count_nonzero(outside):
        raise SudokuError(f"position {positions[outside][0]} lies outside the response of {length} tokens")
    rows, ranks = np.nonzero(positions != NO_POSITION)
    positions, tokens = positions[rows, ranks], tokens[rows, ranks]  # (M,)
    _check_pairs(responses == mask_id, rows, positions, tokens, mask_id)

    cell_at = np.full(length, -1)
    cell_at[cell_positions] = np.arange(len(cell_positions))
    cells = cell_at[positions]  # (M,), -1 outside the map
    digits = solutions[rows, cells]
    if np.count_nonzero(digits) < len(digits):
        row = rows[int(np.argmin(digits))]
        raise SudokuError(f"response {row} has no solution to compare with; drop unsolvable puzzles")
    return write_pairs(
        responses.copy(),
        rows,
        positions,
        tokens,
        cells,
        digit_ids=digit_ids,
        mask_id=mask_id,
        solutions=solutions,
        definite=definite,
        lam=lam,
        on_error=on_error,
    )


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
    """What `step_batch` does, in place and unchecked, with pairs of a position and a token in one list.

    A pair whose token is the mask takes back what stands in a filled cell, for the reward of `remask_reward`.

    Args:
        responses: int64 `(B, R)`, as in `step_batch`; they are changed.
        rows: int64 `(M,)`, the response that each pair is written into.
        positions: int64 `(M,)`, its position.
        tokens: int64 `(M,)`, its token.
        cells: int64 `(M,)`, the cell at its position, −1 outside the map.
        digit_ids: int64 `(n,)`, as in `step_batch`.
        mask_id: The mask token.
        solutions: uint8 `(B, n²)`, as in `step_batch`.
        definite: bool `(B, n²)`, as in `step_batch`.
        lam: λ.
        on_error: What is written for a wrong token.
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


def _check_pairs(
    masked: NDArray[np.bool_],
    rows: NDArray[np.int64],
    positions: NDArray[np.int64],
    tokens: NDArray[np.int64],
    mask_id: int,
) -> None:
    """Refuse pairs `(M,)` that cannot be written into responses whose masked positions are bool `(B, R)`.

    Raises:
        SudokuError: A position is filled already or comes twice in a row, or a token is the mask.
    """
    open_before = masked[rows, positions]
    if np.count_nonzero(open_before) < len(rows):
        pair = int(np.argmin(open_before))
        raise SudokuError(f"position {positions[pair]} of response {rows[pair]} is filled already; choose a masked one")
    if np.count_nonzero(tokens == mask_id):
        row = rows[int(np.argmax(tokens == mask_id))]
        raise SudokuError(f"response {row}: the mask token {mask_id} fills nothing; exclude it from the policy")
    if len(rows) > len(masked):
        places, counts = np.unique(rows * masked.shape[1] + positions, return_counts=True)
        if len(places) < len(rows):
            row, position = divmod(int(places[counts > 1][0]), masked.shape[1])
            raise SudokuError(f"position {position} of response {row} comes twice in one action; choose each once")
