"""Seeded generator of puzzles with one solution, and a canonical form of filled grids for splits up to symmetry."""

from dataclasses import dataclass
from functools import cache
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, BoardLike, as_board, geometry, is_solved, size_of
from sudoku_env.errors import BoardError
from sudoku_env.kernels.generate import generate_batch, smallest_image

RULES = ("singles", "unique")
CANONICAL_SIZES = (4, 6)


@dataclass(frozen=True, eq=False)
class Puzzles:
    """Puzzles of one size with their solutions.

    Attributes:
        boards: uint8 `(N, n²)`, 0 for a blank.
        solutions: uint8 `(N, n²)`, the only solution of each board.
    """

    boards: Board
    solutions: Board

    def __len__(self) -> int:
        return len(self.boards)


def generate(
    n: int,
    *,
    size: int,
    clues: int | tuple[int, int],
    seed: int,
    rule: str = "singles",
    attempts: int = 1000,
) -> Puzzles:
    """Random puzzles, each with exactly one solution and exactly the wanted number of clues.

    Filled grids come from a randomized search whose choices prefer no row, column, box or digit, so a grid and its
    images under the symmetries of Sudoku are equally likely (grids of different classes are not). The same arguments
    give the same puzzles on any machine, and a larger `n` only appends.

    Args:
        n: Number of puzzles.
        size: Board size, one of `board.SIZES`.
        clues: Number of filled cells, or an inclusive range from which it is drawn uniformly for each puzzle.
        seed: Any integer in [0, 2⁶⁴).
        rule: "singles": naked and hidden singles alone solve it. "unique": it has one solution.
        attempts: Grids to try for a puzzle before giving up.

    Returns:
        The puzzles, not deduplicated.

    Raises:
        BoardError: An argument is out of range, or `attempts` grids did not come down to the number of clues.
    """
    table = geometry(size)
    lowest, highest = (clues, clues) if isinstance(clues, int | np.integer) else clues
    if not 0 < lowest <= highest <= table.cells:
        raise BoardError(f"clues {clues!r} is not a number or a range (low, high) within 1..{table.cells}")
    if rule not in RULES:
        raise BoardError(f"rule {rule!r} is unknown; choose one of {RULES}")
    if n < 0 or attempts < 1 or not 0 <= seed < 2**64:
        raise BoardError(f"need n >= 0, attempts >= 1 and 0 <= seed < 2**64, got {n}, {attempts} and {seed}")
    boards = np.zeros((n, table.cells), dtype=np.uint8)
    solutions = np.zeros_like(boards)
    failed = generate_batch(
        np.uint64(seed),
        table.units,
        table.units_of,
        int(lowest),
        int(highest),
        rule == "singles",
        attempts,
        boards,
        solutions,
    )
    if failed >= 0:
        raise BoardError(
            f"no {size}×{size} puzzle of {clues!r} clues under rule {rule!r} in {attempts} attempts (puzzle {failed}); "
            "ask for more clues or raise attempts"
        )
    return Puzzles(boards, solutions)


def canonical_grid(solution: BoardLike) -> bytes:
    """A form that two filled grids share exactly if a symmetry of Sudoku takes one to the other.

    The symmetries are: relabeling digits, permuting the bands, the stacks, the rows of a band and the columns of a
    stack, and transposing where boxes are square. The form is the lexicographically smallest image, by trying all.

    Args:
        solution: A full and valid board of size 4 or 6. There are 2 classes of 4×4 grids and 49 of 6×6.

    Returns:
        n² bytes, the digits of the smallest image row by row.

    Raises:
        BoardError: The size is not one of `CANONICAL_SIZES`, or the board is not a full valid grid.
    """
    flat = as_board(solution)
    size = size_of(flat.size)
    if size not in CANONICAL_SIZES:
        raise BoardError(f"canonical_grid tries every symmetry and takes sizes {CANONICAL_SIZES}, not {size}")
    if not is_solved(flat):
        raise BoardError("canonical_grid needs a full grid without a clash; solve the puzzle first")
    table = geometry(size)
    row_orders = _line_orders(size, table.box_rows)
    column_orders = _line_orders(size, table.box_columns)
    grid = flat.reshape(size, size)
    best = np.full(size * size, 255, dtype=np.uint8)
    smallest_image(grid, row_orders, column_orders, best)
    if table.box_rows == table.box_columns:
        smallest_image(np.ascontiguousarray(grid.T), row_orders, column_orders, best)
    return best.tobytes()


@cache
def _line_orders(size: int, box_lines: int) -> NDArray[np.int64]:
    """All orders `(R, size)` of lines in which those of a box stay together, `box_lines` lines to a box."""
    within = list(permutations(range(box_lines)))
    boxes = range(size // box_lines)
    table = np.array(
        [
            [box * box_lines + line for box, order in zip(box_order, orders, strict=True) for line in order]
            for box_order in permutations(boxes)
            for orders in product(within, repeat=len(boxes))
        ],
        dtype=np.int64,
    )
    table.flags.writeable = False
    return table
