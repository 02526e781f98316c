"""Symmetries of Sudoku: the rearrangements that take every puzzle to a puzzle.

They relabel the digits, permute the bands, the rows of a band, the stacks and the columns of a stack, and transpose
where boxes are square. Each is drawn with equal probability.
"""

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.random import Int, Ints, State, random_below, shuffle


@kernel
def shuffle_lines(lines: Ints, thickness: Int, rng: State) -> None:
    """Fill `lines`, int64 `(n,)`, with a random order of n lines that keeps those of a box, `thickness`, together."""
    for line in range(lines.size):
        lines[line] = line
    for last in range(lines.size // thickness - 1, 0, -1):
        other = random_below(rng, last + 1)
        for k in range(thickness):
            one, two = last * thickness + k, other * thickness + k
            lines[one], lines[two] = lines[two], lines[one]
    for start in range(0, lines.size, thickness):
        shuffle(lines[start : start + thickness], rng)


@kernel
def shuffle_puzzle(
    board: Board,
    solution: Board,
    board_out: Board,
    solution_out: Board,
    size: Int,
    box_rows: Int,
    box_columns: Int,
    rng: State,
    work: Ints,
) -> None:
    """Write the image of a puzzle and its solution under a random symmetry.

    Args:
        board: uint8 `(n²,)`, 0 for a blank.
        solution: uint8 `(n²,)`.
        board_out: uint8 `(n²,)`, not `board`.
        solution_out: uint8 `(n²,)`, not `solution`.
        size: n.
        box_rows: Rows of a box.
        box_columns: Columns of a box.
        rng: uint64 `(1,)`, the state of the random numbers (`kernels.random`).
        work: int64 `(3, n + 1)`, work space.
    """
    down, across, digits = work[0, :size], work[1, :size], work[2]
    shuffle_lines(down, box_rows, rng)
    shuffle_lines(across, box_columns, rng)
    for digit in range(size + 1):
        digits[digit] = digit
    shuffle(digits[1:], rng)
    for line in range(size):
        down[line] *= size
    if box_rows == box_columns and random_below(rng, 2) == 1:
        down, across = across, down
    for row in range(size):
        for column in range(size):
            source = down[row] + across[column]
            board_out[row * size + column] = digits[board[source]]
            solution_out[row * size + column] = digits[solution[source]]
