"""The canonical form of a filled grid: its lexicographically smallest image under the symmetries of Sudoku."""

import numpy as np

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.random import Int, Ints


@kernel(nogil=True)
def smallest_image(grid: Board, column_orders: Ints, places: Ints, box_rows: Int, best: Board) -> None:
    """Lower `best` to the smallest image of a grid under relabelings, row orders and column orders.

    The first row of the smallest image is 1, 2, … n. So the row that comes first and the order of the columns tell the
    labels, and as all labels in the first column differ, they tell the order of the other rows: ascending within a band
    and from band to band.

    Args:
        grid: uint8 `(n, n)`, full and valid.
        column_orders: int64 `(C, n)`, all orders of columns in which those of a stack stay together.
        places: int64 `(C, n)`, the place of each column in these orders.
        box_rows: Rows of a box.
        best: uint8 `(n, n)`, the smallest image so far; start it with 255.
    """
    size = grid.shape[0]
    column_of = np.empty(size + 1, np.int64)
    source = np.empty((size, size), np.int64)
    rows = np.empty(size, np.int64)
    for first in range(size):
        for column in range(size):
            column_of[grid[first, column]] = column
        for row in range(size):
            for column in range(size):
                source[row, column] = column_of[grid[row, column]]
        # The image of a cell is now 1 + the place of the column `source`.
        for c in range(column_orders.shape[0]):
            order, place = column_orders[c], places[c]
            second = next_in_band(source[:, order[0]], place, first, box_rows)
            if compare(source[second], order, place, best[1]) > 0:
                continue
            order_rows(source[:, order[0]], place, box_rows, rows)
            sign: Int = 0
            for r in range(1, size):
                if sign == 0:
                    sign = compare(source[rows[r]], order, place, best[r])
                if sign > 0:
                    break
                if sign < 0:
                    for k in range(size):
                        best[r, k] = place[source[rows[r], order[k]]] + 1
    for column in range(size):
        best[0, column] = column + 1


@kernel(nogil=True)
def next_in_band(column: Ints, place: Ints, first: Int, box_rows: Int) -> Int:
    """The row, other than `first`, of its band that has the lowest image in a column."""
    band = first - first % box_rows
    best = band if first != band else band + 1
    for row in range(best + 1, band + box_rows):
        if row != first and place[column[row]] < place[column[best]]:
            best = row
    return best


@kernel(nogil=True)
def compare(line: Ints, order: Ints, place: Ints, best: Board) -> Int:
    """Sign of the image of a row against a row of the best image so far."""
    for k in range(order.size):
        image = place[line[order[k]]] + 1
        if image != best[k]:
            return -1 if image < best[k] else 1
    return 0


@kernel(nogil=True)
def order_rows(column: Ints, place: Ints, box_rows: Int, rows: Ints) -> None:
    """Fill `rows` with all rows: ascending by their images in a column within a band, bands by their first row."""
    size = column.size
    keys = np.empty(size, np.int64)
    for row in range(size):
        band = row - row % box_rows
        lowest = size
        for other in range(band, band + box_rows):
            lowest = min(lowest, place[column[other]])
        keys[row] = lowest * size + place[column[row]]
        k = row
        while k and keys[rows[k - 1]] > keys[row]:
            rows[k] = rows[k - 1]
            k -= 1
        rows[k] = row
