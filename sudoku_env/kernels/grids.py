"""Random filled grids: exactly uniform for 4×4, 6×6 and 9×9, by randomized search for 16×16.

Shared arguments: `rng` is a state of `kernels.random`, `units` and `units_of` are the tables of `board.geometry`.
"""

from itertools import permutations, product

import numpy as np

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.general import begin_search, run_search
from sudoku_env.kernels.random import Int, Ints, State, random_below, shuffle
from sudoku_env.kernels.search import choose
from sudoku_env.kernels.search_state import LEFT, Search

ORDERS = np.array(list(permutations(range(3))), dtype=np.int64)
ORDERS_OF_LINES = np.array([np.ravel(orders) for orders in product(ORDERS, repeat=3)], dtype=np.int64)
OTHER_LINES = [[line for line in range(3) if line != k // 3] for k in range(9)]
MOVES = np.array(
    [move for move in product(*OTHER_LINES) if all(move.count(line) == 3 for line in range(3))], dtype=np.uint8
)
"""uint8 `(56, 9)`: ways to move the digits of a box's rows to other rows, three to each, by place 3 · row + column."""
SLOTS = np.argsort(np.argsort(MOVES, axis=1, kind="stable"), axis=1)
BESIDE = (3 * MOVES[:, None] + ORDERS_OF_LINES[:, SLOTS].swapaxes(0, 1)).reshape(-1, 9).astype(np.uint8)
"""uint8 `(56 · 6³, 9)`: the ways in which digits may lie in a box beside box 0, by their place in that one."""
TURNED = np.array([3 * (place % 3) + place // 3 for place in range(9)], dtype=np.uint8)
"""uint8 `(9,)`: each place with row and column swapped."""
BELOW = TURNED[BESIDE[:, TURNED]]
"""uint8 `(56 · 6³, 9)`: the same for a box below box 0."""


GUESSES_PER_CELL = 50
"""A search for a random grid begins anew before it makes so many guesses for each cell."""


def random_grid(
    rng: State, units: Ints, units_of: Ints, reduced: Board, places: Ints, grid: Board, search: Search
) -> None:
    """A random filled grid.

    Args:
        rng: uint64 `(1,)`, the state of the random numbers.
        units: int64 `(3n, n)`, the cells of each unit.
        units_of: int64 `(n², 3)`, the units of each cell.
        reduced: uint8 `(M, n²)`, all reduced grids of the size (see `random_image`), `(0, n²)` for 9×9 and 16×16.
        places: int64 `(2, 9, 9)`, work space for 9×9.
        grid: uint8 `(n²,)`, gets the grid.
        search: `new_search(n)`.
    """
    raise NotImplementedError("for kernels only")


choose(
    random_grid,
    lambda rng, units, units_of, reduced, places, grid, search: random_grid9(rng, places, grid),
    lambda rng, units, units_of, reduced, places, grid, search: random_other_grid(
        rng, units, units_of, reduced, grid, search
    ),
)


@kernel
def random_other_grid(rng: State, units: Ints, units_of: Ints, reduced: Board, grid: Board, search: Search) -> None:
    """`random_grid` for the other sizes."""
    if reduced.shape[0]:
        random_image(rng, reduced, grid)
        return
    found = 0
    while found != 1:
        grid[:] = 0
        begin_search(grid, units_of, search)
        search.state[LEFT] = GUESSES_PER_CELL * grid.size - 1
        found = run_search(units, units_of, 1, rng, grid, search)


@kernel
def random_image(rng: State, reduced: Board, grid: Board) -> None:
    """A uniform grid of a size with two stacks: a reduced grid, its digits relabeled, its first stack reordered.

    A grid is reduced if its first row is 1, 2, … n and its second begins with the digits of the second box's first
    row in order. Every grid is the image of one reduced grid under one relabeling and one order of the first stack's
    columns: the second row says which column goes with which of the second box, and then the first row says all labels.
    """
    cells = grid.size
    size = np.int64(np.sqrt(cells))
    width = size // 2
    labels, columns = np.empty(size, np.int64), np.empty(size, np.int64)
    for k in range(size):
        labels[k], columns[k] = k + 1, k
    shuffle(labels, rng)
    shuffle(columns[:width], rng)
    chosen = reduced[random_below(rng, reduced.shape[0])]
    for cell in range(cells):
        grid[cell] = labels[np.int64(chosen[cell - cell % size + columns[cell % size]]) - 1]


@kernel
def fill_all(board: Board, units_of: Ints, used: Ints, out: Board) -> Int:
    """Write all solutions of a board into `out`, uint8 `(M, n²)`, cell by cell in order; returns how many there are.

    Args:
        board: uint8 `(n²,)`, without a clash; holds its clues again at the end.
        units_of: int64 `(n², 3)`, the units of each cell.
        used: int64 `(3n,)`, work space.
        out: Solutions beyond its length are counted only.
    """
    cells = board.size
    size = used.size // 3
    used[:] = 0
    given = board > 0
    for cell in range(cells):
        if given[cell]:
            for k in range(3):
                used[units_of[cell, k]] |= np.int64(1) << np.int64(board[cell])
    count = 0
    cell, step = 0, 1
    while cell >= 0:
        if cell == cells:
            if count < out.shape[0]:
                for k in range(cells):
                    out[count, k] = board[k]
            count += 1
            cell, step = cell - 1, -1
        elif given[cell]:
            cell += step
        else:
            # The digit that stands here gives way to the next one that fits; none: the cell before must change.
            row, column, box = units_of[cell]
            digit = np.int64(board[cell])
            bit = (np.int64(1) << digit) if digit else np.int64(0)
            used[row] ^= bit
            used[column] ^= bit
            used[box] ^= bit
            taken = used[row] | used[column] | used[box]
            digit += 1
            while digit <= size and taken >> digit & 1:
                digit += 1
            if digit > size:
                board[cell] = 0
                cell, step = cell - 1, -1
            else:
                board[cell] = digit
                bit = np.int64(1) << digit
                used[row] |= bit
                used[column] |= bit
                used[box] |= bit
                cell, step = cell + 1, 1
    return count


@kernel
def random_grid9(rng: State, places: Ints, grid: Board) -> Int:
    """A uniform 9×9 grid, by choosing box after box uniformly and beginning anew whenever that goes wrong.

    Boxes are numbered 0 to 8 row by row. Until digits are relabeled at the end, a digit stands for its place in box 0,
    d = 3 · row + column. In each other box it must be in another row than in the boxes beside it and in another column
    than in those above and below. Every grid comes from exactly one run of choices, every choice has the same number
    of ways whatever went before, and a run that fails is thrown away whole, so grids are equally likely:

    1. Boxes 1 and 3: 56 ways to move the digits to other rows (columns) than in box 0, 6³ orders within these lines.
    2. Box 4: 56 ways to choose rows other than in box 3, 56 ways to choose columns other than in box 1. It fails if
       two digits share a place.
    3. Box 2: the rows are those left over; 6³ orders within them. Box 5: the rows are those left over; a row has two
       orders that avoid the columns in box 2, or none, if they are all the same, and then it fails.
    4. Boxes 6 and 7: the same, with rows and columns swapped.
    5. Box 8: all is left over. It fails if two digits share a place.

    Args:
        rng: uint64 `(1,)`, the state of the random numbers.
        places: int64 `(2, 9, 9)`, work space: row 0..2 and column 0..2 within each box of each digit.
        grid: uint8 `(81,)`, gets the grid.

    Returns:
        The number of runs, about 75. Of 9! · 56⁴ · 6¹² · 2⁶ runs 6,670,903,752,021,072,936,960 end in a grid.
    """
    row, column = places[0], places[1]
    runs = 1
    while not (
        draw_corner(rng, row, column)
        and draw_rest(rng, row[0], row[1], row[2], row[3], row[4], row[5], column[2], column[5])
        and draw_rest(rng, column[0], column[3], column[6], column[1], column[4], column[7], row[6], row[7])
        and draw_last(row, column)
    ):
        runs += 1
    labels = np.empty(9, np.int64)
    for d in range(9):
        labels[d] = d + 1
    shuffle(labels, rng)
    for box in range(9):
        corner = 27 * (box // 3) + 3 * (box % 3)
        for d in range(9):
            grid[corner + 9 * row[box, d] + column[box, d]] = labels[d]
    return runs


@kernel
def draw_corner(rng: State, row: Ints, column: Ints) -> bool:
    """Steps 1 and 2 of `random_grid9`; False if they fail."""
    beside, below = BESIDE[random_below(rng, 12096)], BELOW[random_below(rng, 12096)]
    to_row, to_column = MOVES[random_below(rng, 56)], MOVES[random_below(rng, 56)]
    seen: Int = 0
    for d in range(9):
        bit = 1 << (3 * np.int64(to_row[below[d]]) + np.int64(to_column[TURNED[beside[d]]]))
        if seen & bit:
            return False
        seen |= bit
    for d in range(9):
        row[0, d], column[0, d] = d // 3, d % 3
        row[1, d], column[1, d] = beside[d] // 3, beside[d] % 3
        row[3, d], column[3, d] = below[d] // 3, below[d] % 3
        row[4, d], column[4, d] = to_row[below[d]], to_column[TURNED[beside[d]]]
    return True


@kernel
def draw_rest(
    rng: State,
    first: Ints,
    second: Ints,
    third: Ints,
    fourth: Ints,
    fifth: Ints,
    sixth: Ints,
    place: Ints,
    place_below: Ints,
) -> bool:
    """Step 3 of `random_grid9`, or step 4 if it gets columns for rows; False if it fails.

    The first six are the rows 0..2 of the digits in boxes 0 to 5, of which those in boxes 2 and 5 are written, like
    the columns there, `place` and `place_below`.
    """
    for d in range(9):
        third[d] = 3 - first[d] - second[d]
        sixth[d] = 3 - fourth[d] - fifth[d]
    order_lines(rng, third, place)
    return order_lines_around(rng, sixth, place, place_below)


@kernel
def draw_last(row: Ints, column: Ints) -> bool:
    """Step 5 of `random_grid9`; False if it fails."""
    seen = 0
    for d in range(9):
        row[8, d] = 3 - row[6, d] - row[7, d]
        column[8, d] = 3 - column[2, d] - column[5, d]
        seen |= 1 << (3 * row[8, d] + column[8, d])
    return seen == 511


@kernel
def order_lines(rng: State, line: Ints, place: Ints) -> None:
    """Give the three digits of each line places 0..2 in a random order."""
    order = ORDERS_OF_LINES[random_below(rng, 216)]
    first, second = 0, 3
    third = 6
    for d in range(9):
        if line[d] == 0:
            place[d] = order[first]
            first += 1
        elif line[d] == 1:
            place[d] = order[second]
            second += 1
        else:
            place[d] = order[third]
            third += 1


@kernel
def order_lines_around(rng: State, line: Ints, taken: Ints, place: Ints) -> bool:
    """Give the digits of each line places 0..2 other than `taken`, one of two ways; False if a line has none."""
    bits = random_below(rng, 8)
    for k in range(3):
        a = b = c = -1
        for d in range(9):
            if line[d] == k:
                a, b, c = b, c, d
        skip = bits >> k & 1
        found = False
        for order in ORDERS:
            if order[0] != taken[a] and order[1] != taken[b] and order[2] != taken[c]:
                found = True
                place[a], place[b], place[c] = order
                if skip == 0:
                    break
                skip -= 1
        if not found:
            return False
    return True
