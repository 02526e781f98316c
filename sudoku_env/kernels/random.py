"""Random integers for kernels: splitmix64, whose integers are the same on any machine and with any thread count.

A state is uint64 `(1,)`, a stream of its own; `(0,)` stands for no randomness where a kernel allows that.
"""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.kernels.compiling import kernel

Int = int | np.int64
Ints = NDArray[np.int64]
State = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@kernel
def next_random(rng: State) -> np.uint64:
    """Advance splitmix64 (state: uint64 `(1,)`) and return 64 random bits; integers only, so equal on any machine."""
    rng[0] += _GOLDEN
    x = rng[0]
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


@kernel
def random_below(rng: State, bound: Int) -> Int:
    """A random integer in [0, bound), for bounds far below 2³²."""
    return np.int64(((next_random(rng) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@kernel
def shuffle(items: Ints, rng: State) -> None:
    """Shuffle a one-dimensional array in place (Fisher and Yates)."""
    for last in range(items.size - 1, 0, -1):
        other = random_below(rng, last + 1)
        items[last], items[other] = items[other], items[last]
