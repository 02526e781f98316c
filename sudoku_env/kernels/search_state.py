"""Work space of a search for solutions, and what it notes so that it can stop and be gone on with.

Kernels run for a bounded time and then return to Python, which sees a Ctrl-C only between two calls. How much they may
still do stands in `state[LEFT]`: a search takes 1 from it for each guess (9×9: for each state that it looks at), and
the ladder the number of cells for each pattern. At 0 they return; called again, they go on where they were.
"""

from collections.abc import Callable
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from sudoku_env.board import Board
from sudoku_env.kernels.planes import STATE_WORDS
from sudoku_env.kernels.random import Ints

UNFINISHED = -2
"""What a search returns instead of a count where nothing was left in `state[LEFT]`."""
PIECE = 8192
"""What `state[LEFT]` is set to for a call: a few milliseconds for 9×9, up to a fifth of a second for 16×16."""

# Entries of Search.state; a search of `kernels.general` and one of `kernels.nine` share the middle ones.
LEFT, COUNT, BEGUN, LENGTH, DEPTH, PHASE, CELL = range(7)
STATE = 7
START, LUCKY = LENGTH, DEPTH
# Rows of Search.stacks
MASKS, DEFINITE, TRAIL, BRANCH_CELLS, BRANCH_MASKS, BRANCH_LENGTHS = range(6)

# A state on the stack for each cell that may have been guessed, and one more; then eight words for the rows of a digit.
ROWS = 82 * STATE_WORDS
WORK = ROWS + 8


class Search(NamedTuple):
    """Work space of one search, from `new_search`; serves any number of boards of its size, one at a time.

    A field that the size does not need is None, so that kernels leave out, uncompiled, what they do with it.

    Attributes:
        state: int64 `(STATE,)`. LEFT to do; COUNT of solutions; BEGUN, whether the search has looked at the board (9×9:
            has guessed); LENGTH of the trail and DEPTH of the guesses (9×9: START of the state that it looks at and
            LUCKY guesses); PHASE and CELL of `find_backbone`, PHASE also of the kernels that count.
        other: uint8 `(n²,)`, a solution beside the one that is looked for.
        words: uint32 `(WORK,)`, the stack of states of `kernels.nine`; None for other sizes.
        stacks: int64 `(6, n²)`: candidates, singles, cells filled so far, and the cells, digits left and lengths of
            the trail of the guesses; None for 9×9.
        used: int64 `(3n,)`, scratch; None for 9×9.
        trial: uint8 `(n²,)`, the board with what is filled so far; None for 9×9.
        no_rng: uint64 `(0,)`; None for 9×9.
    """

    state: Ints
    other: Board
    # Any: None or an array, which a kernel knows by the size that it is compiled for.
    words: Any
    stacks: Any
    used: Any
    trial: Any
    no_rng: Any


_NO_RNG = np.empty(0, np.uint64)


def new_search(size: int) -> Search:
    """Work space for boards of a size; a thread needs one of its own."""
    cells = size * size
    state, other = np.zeros(STATE, np.int64), np.empty(cells, np.uint8)
    if size == 9:
        return Search(state, other, np.empty(WORK, np.uint32), None, None, None, None)
    stacks, used, trial = np.empty((6, cells), np.int64), np.empty(3 * size, np.int64), np.empty(cells, np.uint8)
    return Search(state, other, None, stacks, used, trial, _NO_RNG)


def in_pieces(kernel: Callable[..., Any], state: Ints, count: int, *arguments: Any, stop: Event | None = None) -> None:
    """Call a kernel over many boards until it has done all of them, or until `stop` is set by another thread.

    Args:
        kernel: Takes the index of the board to go on with and the arguments; returns the index that it got to.
        state: `Search.state` of the search among the arguments.
        count: Number of boards.
        arguments: What the kernel gets.
        stop: Says to leave the rest undone.
    """
    done = 0
    while done < count and not (stop is not None and stop.is_set()):
        state[LEFT] = PIECE
        done = kernel(done, *arguments)
