"""Filled grids: the tables behind uniform sampling, and a canonical form for telling grids apart up to symmetry."""

from functools import cache
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, BoardLike, as_board, geometry, is_solved, size_of
from sudoku_env.errors import BoardError
from sudoku_env.kernels.canonical import smallest_image
from sudoku_env.kernels.grids import fill_all

CANONICAL_SIZES = (4, 6, 9)
REDUCED_GRIDS = {4: 6, 6: 6528}


@cache
def reduced_grids(size: int) -> Board:
    """All grids whose first row is 1, 2, … n and whose second begins with the digits of the second box in order.

    For sizes with two stacks, where every grid comes from exactly one of them by relabeling the digits (n! ways) and
    reordering the columns of the first stack ((n/2)! ways): 6 · 4! · 2! = 288 grids of size 4 and
    6,528 · 6! · 3! = 28,200,960 of size 6.

    Returns:
        uint8 `(M, n²)`, read-only; M is 0 for the other sizes.
    """
    reduced = np.zeros((REDUCED_GRIDS.get(size, 0), size * size), dtype=np.uint8)
    if len(reduced):
        start = np.zeros(size * size, dtype=np.uint8)
        start[:size] = np.arange(1, size + 1)
        start[size : size + size // 2] = np.arange(size // 2 + 1, size + 1)
        fill_all(start, geometry(size).units_of, np.empty(3 * size, dtype=np.int64), reduced)
    reduced.flags.writeable = False
    return reduced


def canonical_grid(solution: BoardLike) -> bytes:
    """A form that two filled grids share exactly if a symmetry of Sudoku takes one to the other.

    The symmetries are: relabeling digits, permuting the bands, the stacks, the rows of a band and the columns of a
    stack, and transposing where boxes are square. The form is the lexicographically smallest image.

    Args:
        solution: A full and valid board of size 4, 6 or 9. There are 2 classes of 4×4 grids, 49 of 6×6 and
            5,472,730,538 of 9×9.

    Returns:
        n² bytes, the digits of the smallest image row by row.

    Raises:
        BoardError: The size is not one of `CANONICAL_SIZES`, or the board is not a full valid grid.
    """
    flat = as_board(solution)
    size = size_of(flat.size)
    if size not in CANONICAL_SIZES:
        raise BoardError(f"canonical_grid tries every order of the columns; that is too much for size {size}")
    if not is_solved(flat):
        raise BoardError("canonical_grid needs a full grid without a clash; solve the puzzle first")
    table = geometry(size)
    orders, places = _column_orders(size, table.box_columns)
    grid = flat.reshape(size, size)
    best = np.full((size, size), 255, dtype=np.uint8)
    smallest_image(grid, orders, places, table.box_rows, best)
    if table.box_rows == table.box_columns:
        smallest_image(np.ascontiguousarray(grid.T), orders, places, table.box_rows, best)
    return best.tobytes()


@cache
def _column_orders(size: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All orders `(C, n)` of columns in which those of a stack stay together, and the place of each column in them."""
    within = list(permutations(range(width)))
    stacks = range(size // width)
    orders = np.array(
        [
            [stack * width + column for stack, order in zip(stack_order, inner, strict=True) for column in order]
            for stack_order in permutations(stacks)
            for inner in product(within, repeat=len(stacks))
        ],
        dtype=np.int64,
    )
    places = np.argsort(orders, axis=1)
    orders.flags.writeable = places.flags.writeable = False
    return orders, places
