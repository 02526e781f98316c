"""Slow and plain: Sudoku from its definition, sharing no code with the package."""

import re

import numpy as np

BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3), 16: (4, 4)}


def units(n):
    """Rows, then columns, then boxes, each a list of cells."""
    height, width = BOXES[n]
    rows = [[(r, c) for c in range(n)] for r in range(n)]
    columns = [[(r, c) for r in range(n)] for c in range(n)]
    boxes = [
        [(r, c) for r in range(top, top + height) for c in range(left, left + width)]
        for top in range(0, n, height)
        for left in range(0, n, width)
    ]
    return [[r * n + c for r, c in unit] for unit in rows + columns + boxes]


def unit_called(name, n):
    """The cells of "row 3", "column 1" or "box 2"."""
    kind, number = name.split()
    return units(n)[n * ("row", "column", "box").index(kind) + int(number) - 1]


def numbers_in(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def size(board):
    return int(len(board) ** 0.5)


def candidates(board):
    """Set of possible digits for each cell; empty for a filled one."""
    n = size(board)
    found = []
    for cell, digit in enumerate(board):
        seen = {int(board[other]) for unit in units(n) if cell in unit for other in unit}
        found.append(set() if digit else set(range(1, n + 1)) - seen)
    return found


def definite(board):
    """Naked singles, then hidden singles (rows, columns, boxes; lower digits first); 0 for none."""
    n, options = size(board), candidates(board)
    result = [next(iter(option)) if len(option) == 1 else 0 for option in options]
    for unit in units(n):
        for digit in range(1, n + 1):
            places = [cell for cell in unit if digit in options[cell]]
            if len(places) == 1 and result[places[0]] == 0:
                result[places[0]] = digit
    return result


def solutions(board):
    """All solutions by backtracking, as tuples."""
    board = [int(digit) for digit in board]
    n = size(board)
    peers = [{other for unit in units(n) if cell in unit for other in unit} - {cell} for cell in range(n * n)]
    if any(board[cell] and board[cell] in {board[peer] for peer in peers[cell]} for cell in range(n * n)):
        return

    def extend():
        options = {
            cell: set(range(1, n + 1)) - {board[peer] for peer in peers[cell]}
            for cell in range(n * n)
            if board[cell] == 0
        }
        if not options:
            yield tuple(board)
            return
        cell = min(options, key=lambda blank: len(options[blank]))
        for digit in sorted(options[cell]):
            board[cell] = digit
            yield from extend()
        board[cell] = 0

    yield from extend()


def random_symmetry(n, rng):
    """A random symmetry as arrays `(n²,)` and `(n + 1,)`: its image of a board is `digits[board[cells]]`."""

    def lines(thickness):
        bands = rng.permutation(n // thickness)
        return np.concatenate([band * thickness + rng.permutation(thickness) for band in bands])

    height, width = BOXES[n]
    rows, columns = lines(height), lines(width)
    cells = n * rows[:, None] + columns
    if height == width and rng.integers(2):
        cells = cells.T
    return cells.ravel(), np.array([0, *(rng.permutation(n) + 1)])
