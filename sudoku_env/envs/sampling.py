"""Random legal actions from action masks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudoku_env.errors import SudokuError
from sudoku_env.kernels.play import pick_legal, pick_legal_batch
from sudoku_env.kernels.random import Int


def sample_legal(action_mask: NDArray[Any], rng: np.random.Generator) -> Int | NDArray[np.int64]:
    """Draw a legal action, each with equal probability.

    `rng.random` is called once, for as many numbers as there are masks.

    Args:
        action_mask: `(A,)` or `(B, A)` of any integer type or bool, nonzero for a legal action, as in
            `info["action_mask"]`.
        rng: Where the randomness comes from.

    Returns:
        An integer, or int64 `(B,)`. Where a mask has no legal action, as when the board is full, it is 0.

    Raises:
        SudokuError: The mask has another shape.
    """
    dimensions = getattr(action_mask, "ndim", None)
    if dimensions == 1:
        return pick_legal(action_mask, rng.random())
    if dimensions == 2:
        actions = np.empty(len(action_mask), dtype=np.int64)
        pick_legal_batch(action_mask, rng.random(len(action_mask)), actions)
        return actions
    raise SudokuError(f"a mask is an array of shape (A,) or (B, A), got {type(action_mask)} of {np.shape(action_mask)}")
