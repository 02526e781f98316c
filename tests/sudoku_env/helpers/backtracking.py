"""A slow and plain solver that shares no code with the package: backtracking over the cell with the fewest digits left.

Plain Python that numba can compile, so that hundreds of thousands of boards can be checked.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def count_solutions(board, limit, solution):
    """Solutions of a 9×9 board up to `limit`; the last one found stays in `solution`."""
    grid = board.astype(np.int64)
    rows, columns, boxes = np.zeros((9, 10), np.bool_), np.zeros((9, 10), np.bool_), np.zeros((9, 10), np.bool_)
    for cell in range(81):
        digit = grid[cell]
        if digit == 0:
            continue
        row, column, box = cell // 9, cell % 9, cell // 27 * 3 + cell % 9 // 3
        if rows[row, digit] or columns[column, digit] or boxes[box, digit]:
            return 0
        rows[row, digit] = columns[column, digit] = boxes[box, digit] = True
    filled = np.empty(81, np.int64)
    depth, count = 0, 0
    forward = True
    while True:
        if forward:
            best, fewest = -1, 10
            for cell in range(81):
                if grid[cell] == 0:
                    row, column, box = cell // 9, cell % 9, cell // 27 * 3 + cell % 9 // 3
                    left = 0
                    for digit in range(1, 10):
                        left += not (rows[row, digit] or columns[column, digit] or boxes[box, digit])
                    if left < fewest:
                        best, fewest = cell, left
            if best < 0:
                count += 1
                solution[:] = grid
                if count == limit:
                    return count
                forward = False
                continue
            filled[depth] = best
            depth += 1
        elif depth == 0:
            return count
        cell = filled[depth - 1]
        row, column, box = cell // 9, cell % 9, cell // 27 * 3 + cell % 9 // 3
        digit = grid[cell]
        if digit:
            rows[row, digit] = columns[column, digit] = boxes[box, digit] = False
        digit += 1
        while digit < 10 and (rows[row, digit] or columns[column, digit] or boxes[box, digit]):
            digit += 1
        forward = digit < 10
        if forward:
            grid[cell] = digit
            rows[row, digit] = columns[column, digit] = boxes[box, digit] = True
        else:
            grid[cell] = 0
            depth -= 1
