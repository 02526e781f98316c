"""One action on each of many responses, by the function that the environments call."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudoku_env.envs.dynamics import StepBatch, write_pairs


def step_batch(
    responses: NDArray[np.int64], positions: NDArray[np.int64], tokens: NDArray[np.int64],
    *, cell_positions: NDArray[np.int64], **given: Any,
) -> StepBatch:  # fmt: skip
    """Positions and tokens are `(B,)` or `(B, k)`, -1 where there is none; the rest is as `write_pairs` takes it."""
    rows, ranks = np.nonzero(positions.reshape(len(positions), -1) >= 0)
    positions, tokens = (each.reshape(len(each), -1)[rows, ranks] for each in (positions, tokens))
    cell_at = np.full(responses.shape[1], -1)
    cell_at[cell_positions] = np.arange(len(cell_positions))
    return write_pairs(responses.copy(), rows, positions, tokens, cell_at[positions], **{"on_error": "end", **given})
