"""Puzzles by thinning out random grids, and the canonical form of a grid.

Arguments are those of `kernels.general`.
"""

import numpy as np
from numba import njit

from sudoku_env.board import Board
from sudoku_env.kernels.general import fill_singles, search
from sudoku_env.kernels.random import Int, Ints, next_random, random_below, shuffle


@njit(cache=True)
def stays_solvable(
    board: Board,
    cell: Int,
    units: Ints,
    units_of: Ints,
    singles: bool,
    used: Ints,
    masks: Ints,
    forced: Ints,
    trail: Ints,
    scratch: Board,
) -> bool:
    """Whether a puzzle that satisfies the rule still does so after `cell` was blanked in it.

    By singles: what they find only grows with the digits on the board, so it is enough that they fill `cell` again.
    """
    if not singles:
        return search(board, units, units_of, 2, 0, np.empty(0, np.uint64), scratch) == 1
    scratch[:] = board
    fill_singles(scratch, units, units_of, used, masks, forced, trail, 0)
    return scratch[cell] != 0


@njit(cache=True)
def generate_batch(
    seed: np.uint64,
    units: Ints,
    units_of: Ints,
    lowest: Int,
    highest: Int,
    singles: bool,
    attempts: Int,
    boards: Board,
    solutions: Board,
) -> Int:
    """Fill `boards` and `solutions`, uint8 `(N, n²)`; puzzle k depends on the seed and k alone.

    A random filled grid is thinned out in a random order, each clue going if the rule still holds without it. A clue
    that had to stay has to stay for good, so one pass ends at the wanted number of clues or at an irreducible puzzle;
    in that case a new grid is drawn.

    Returns:
        −1, or the index of the first puzzle for which no attempt came down to the number of clues drawn.
    """
    cells = boards.shape[1]
    used = np.empty(units.shape[0], np.int64)
    masks = np.empty(cells, np.int64)
    forced = np.empty(cells, np.int64)
    trail = np.empty(cells, np.int64)
    scratch = np.empty(cells, np.uint8)
    order = np.arange(cells)
    empty = np.zeros(cells, np.uint8)
    rng = np.empty(1, np.uint64)
    for k in range(boards.shape[0]):
        rng[0] = seed
        rng[0] = next_random(rng) + np.uint64(k)
        rng[0] = next_random(rng)
        target = lowest + random_below(rng, highest - lowest + 1)
        clues = cells + 1
        for _ in range(attempts):
            while search(empty, units, units_of, 1, 50 * cells, rng, solutions[k]) != 1:
                pass
            boards[k] = solutions[k]
            clues = cells
            for i in range(cells):
                order[i] = i
            shuffle(order, rng)
            for cell in order:
                if clues == target:
                    break
                boards[k, cell] = 0
                if stays_solvable(boards[k], cell, units, units_of, singles, used, masks, forced, trail, scratch):
                    clues -= 1
                else:
                    boards[k, cell] = solutions[k, cell]
            if clues == target:
                break
        if clues != target:
            return k
    return -1


@njit(cache=True)
def smallest_image(grid: Board, row_orders: Ints, column_orders: Ints, best: Board) -> None:
    """Lower `best` to the lexicographically smallest image of a filled grid under row and column orders.

    Digits are relabeled 1, 2, … in the order in which they appear in the image.

    Args:
        grid: uint8 `(n, n)`.
        row_orders: int64 `(R, n)`.
        column_orders: int64 `(C, n)`.
        best: uint8 `(n²,)`, the smallest image so far; start it with 255.
    """
    size = grid.shape[0]
    label = np.empty(size + 1, np.uint8)
    for r in range(row_orders.shape[0]):
        for c in range(column_orders.shape[0]):
            for k in range(size):
                label[grid[row_orders[r, 0], column_orders[c, k]]] = k + 1
            smaller = False
            for k in range(size * size):
                value = label[grid[row_orders[r, k // size], column_orders[c, k % size]]]
                if smaller or value < best[k]:
                    best[k] = value
                    smaller = True
                elif value > best[k]:
                    break
