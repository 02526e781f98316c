"""Puzzles by thinning out random grids.

A clue that had to stay has to stay for good: what rules find only grows with the digits on the board, and taking clues
away never makes solutions fewer. Hence one pass over the clues ends at an irreducible puzzle, and several clues may go
in one test without changing the outcome.

Shared arguments: `board` uint8 `(n²,)`; `ceiling`, an index in the ladder's `RULES`: the hardest rule allowed, where
under `BACKBONE` every puzzle with one solution passes; `table`, `ladder_table(n)`; `ladder`, `new_work(n)`, or None if
the ladder is not needed, which saves compiling it: for `HIDDEN_SINGLE` and `BACKBONE`; `bench`, the work space `Bench`.
"""

from typing import NamedTuple

import numpy as np

from sudoku_env.board import Board
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.general import digit_of, find_candidates, find_singles, search
from sudoku_env.kernels.grids import random_grid
from sudoku_env.kernels.ladder import grade
from sudoku_env.kernels.ladder_state import BACKBONE, HIDDEN_SINGLE, Table, Work
from sudoku_env.kernels.nine import WORK, count9, other_solution9
from sudoku_env.kernels.planes import Words
from sudoku_env.kernels.random import Int, Ints, State, next_random, random_below, shuffle
from sudoku_env.kernels.singles import definite9


class Recipe(NamedTuple):
    """What the puzzles have to be like.

    Attributes:
        targets: int64 `(T,)`, the numbers of clues to draw from; empty to take away as many as the rule lets go.
        minimal: Whether each clue has to be necessary for one solution.
        floor: The hardest rule needed is at least this one.
        ceiling: The hardest rule needed is at most this one.
        orbits: int64 `(m, w)`, the cells that are clues or blank together; rows are padded with −1.
        reduced: uint8 `(M, n²)`, the reduced grids that `kernels.grids.random_grid` takes.
        attempts: Grids to try for a puzzle.
    """

    targets: Ints
    minimal: bool
    floor: Int
    ceiling: Int
    orbits: Ints
    reduced: Board
    attempts: Int


class Bench(NamedTuple):
    """Work space of one thread.

    Attributes:
        scratch: uint8 `(n²,)`.
        used: int64 `(3n,)`.
        masks: int64 `(n²,)`.
        definite: int64 `(n²,)`.
        digits: uint8 `(n²,)`.
        order: int64 `(m,)`, the order in which orbits go.
        places: int64 `(2, 9, 9)`.
        no_rng: uint64 `(0,)`.
        nine: uint32 `(WORK,)`, of `kernels.nine`.
    """

    scratch: Board
    used: Ints
    masks: Ints
    definite: Ints
    digits: Board
    order: Ints
    places: Ints
    no_rng: State
    nine: Words


@kernel(nogil=True)
def new_bench(size: Int, orbits: Int) -> Bench:
    """Work space for puzzles of a size whose clues come and go in that many orbits."""
    cells = size * size
    return Bench(
        np.empty(cells, np.uint8),
        np.empty(3 * size, np.int64),
        np.empty(cells, np.int64),
        np.empty(cells, np.int64),
        np.empty(cells, np.uint8),
        np.empty(orbits, np.int64),
        np.empty((2, 9, 9), np.int64),
        np.empty(0, np.uint64),
        np.empty(WORK, np.uint32),
    )


@kernel(nogil=True, inline="always")
def is_unique(board: Board, table: Table, bench: Bench) -> bool:
    """Whether a board has exactly one solution."""
    if board.size == 81:
        return count9(board, 2, bench.scratch, bench.nine) == 1
    return search(board, table.units, table.units_of, 2, 0, bench.no_rng, bench.scratch) == 1


@kernel(nogil=True, inline="always")
def has_other(board: Board, cell: Int, digit: Int, table: Table, bench: Bench) -> bool:
    """Whether a board, blank in `cell`, has a solution with another digit than `digit` there."""
    if board.size == 81:
        return other_solution9(board, cell, digit, bench.scratch, bench.nine)
    find_candidates(board, table.units_of, bench.used, bench.masks)
    rest = bench.masks[cell] & ~(np.int64(1) << (digit - 1))
    found = False
    for other in range(1, table.units.shape[1] + 1):
        if rest >> (other - 1) & 1 and not found:
            board[cell] = other
            found = search(board, table.units, table.units_of, 1, 0, bench.no_rng, bench.scratch) == 1
    board[cell] = 0
    return found


@kernel(nogil=True, inline="always")
def add_singles(board: Board, table: Table, bench: Bench) -> bool:
    """Write all naked and hidden singles into a board that has a solution; False if there are none."""
    found = False
    if board.size == 81:
        definite9(board, bench.digits, bench.nine)
        for cell in range(81):
            found = found or bench.digits[cell] != 0
            board[cell] += bench.digits[cell]
        return found
    find_singles(board, table.units, table.units_of, bench.used, bench.masks, bench.definite)
    for cell in range(board.size):
        if bench.definite[cell]:
            found = True
            board[cell] = digit_of(bench.definite[cell])
    return found


@kernel(nogil=True, inline="always")
def singles_fill(board: Board, cell: Int, table: Table, bench: Bench) -> bool:
    """Whether singles, round by round, fill a cell of a board that has a solution, or all of it if the cell is −1."""
    scratch = bench.scratch
    scratch[:] = board
    while cell < 0 or scratch[cell] == 0:
        if not add_singles(scratch, table, bench):
            break
    if cell >= 0:
        return scratch[cell] != 0
    for other in range(scratch.size):
        if scratch[other] == 0:
            return False
    return True


@kernel(nogil=True)
def holds(board: Board, ceiling: Int, table: Table, ladder: Work | None, bench: Bench) -> bool:
    """Whether the rules up to the ceiling solve a board that has a solution."""
    if ceiling == HIDDEN_SINGLE:
        return singles_fill(board, -1, table, bench)
    if not is_unique(board, table, bench):
        return False
    if ladder is not None and ceiling < BACKBONE:
        return bool(grade(board, table, ceiling, ladder) >= 0)
    return True


@kernel(nogil=True)
def holds_without(
    board: Board, cell: Int, digit: Int, ceiling: Int, table: Table, ladder: Work | None, bench: Bench
) -> bool:
    """Whether the rules up to the ceiling solve a board, blank in `cell`, that they solve with `digit` there."""
    fast_search = board.size == 81  # faster than singles
    if fast_search and has_other(board, cell, digit, table, bench):
        return False
    if HIDDEN_SINGLE <= ceiling < BACKBONE:
        filled = singles_fill(board, cell, table, bench)
        if filled or ceiling == HIDDEN_SINGLE:
            return filled
    if not fast_search and has_other(board, cell, digit, table, bench):
        return False
    if ladder is not None and ceiling < BACKBONE:
        return bool(grade(board, table, ceiling, ladder) >= 0)
    return True


@kernel(nogil=True)
def thin_out(
    board: Board,
    solution: Board,
    target: Int,
    ceiling: Int,
    orbits: Ints,
    table: Table,
    ladder: Work | None,
    bench: Bench,
) -> Int:
    """Take clues from a full board, orbit by orbit in the order `bench.order`, while the rules still solve it.

    Many orbits go at once first, fewer and fewer as that fails. An orbit with more clues than are to go stays.

    Returns:
        Number of clues left, at least `target`.
    """
    clues = board.size
    at_once = max(1, orbits.shape[0] // 3)
    begin = 0
    while begin < orbits.shape[0] and clues > target:
        end = min(begin + at_once, orbits.shape[0])
        taken = 0
        for k in range(begin, end):
            for cell in orbits[bench.order[k]]:
                if cell >= 0:
                    board[cell] = 0
                    taken += 1
        if clues - taken < target:
            fine = False
        elif taken == 1:
            cell = orbits[bench.order[begin], 0]
            fine = holds_without(board, cell, np.int64(solution[cell]), ceiling, table, ladder, bench)
        else:
            fine = holds(board, ceiling, table, ladder, bench)
        if fine:
            clues -= taken
            begin = end
            continue
        for k in range(begin, end):
            for cell in orbits[bench.order[k]]:
                if cell >= 0:
                    board[cell] = solution[cell]
        if at_once > 1:
            at_once //= 2
        else:
            begin = end
    return clues


@kernel(nogil=True, inline="always")
def is_minimal(board: Board, table: Table, bench: Bench) -> bool:
    """Whether no clue of a board with one solution can go without a second one appearing."""
    minimal = True
    for cell in range(board.size):
        digit = np.int64(board[cell])
        if digit and minimal:
            board[cell] = 0
            minimal = has_other(board, cell, digit, table, bench)
            board[cell] = digit
    return minimal


@kernel(nogil=True)
def generate_one(
    rng: State, recipe: Recipe, table: Table, ladder: Work | None, bench: Bench, board: Board, solution: Board
) -> bool:
    """One puzzle and its solution, both uint8 `(n²,)`; False if all attempts failed."""
    drawn = recipe.targets.size > 0
    wanted = recipe.targets[random_below(rng, recipe.targets.size)] if drawn else np.int64(0)
    target = np.int64(0) if recipe.minimal else wanted
    ceiling = BACKBONE if recipe.minimal else recipe.ceiling
    for _ in range(recipe.attempts):
        random_grid(rng, table.units, table.units_of, recipe.reduced, bench.places, solution)
        board[:] = solution
        for k in range(bench.order.size):
            bench.order[k] = k
        shuffle(bench.order, rng)
        clues = thin_out(board, solution, target, ceiling, recipe.orbits, table, ladder, bench)
        if drawn and clues != wanted:
            continue
        if recipe.minimal and recipe.orbits.shape[1] > 1 and not is_minimal(board, table, bench):
            continue
        if ceiling != recipe.ceiling and not holds(board, recipe.ceiling, table, ladder, bench):
            continue
        if ladder is not None and recipe.floor and grade(board, table, recipe.ceiling, ladder) < recipe.floor:
            continue
        return True
    return False


@kernel(nogil=True)
def generate_range(
    seed: np.uint64, first: Int, recipe: Recipe, table: Table, ladder: Work | None, boards: Board, solutions: Board
) -> Int:
    """Fill `boards` and `solutions`, uint8 `(N, n²)`, with the puzzles from index `first` on.

    A puzzle depends on the seed, its index and the recipe alone.

    Returns:
        −1, or the place of the first puzzle for which all attempts failed.
    """
    bench = new_bench(table.units.shape[1], recipe.orbits.shape[0])
    rng = np.empty(1, np.uint64)
    for k in range(boards.shape[0]):
        rng[0] = seed
        rng[0] = next_random(rng) + np.uint64(first + k)
        rng[0] = next_random(rng)
        if not generate_one(rng, recipe, table, ladder, bench, boards[k], solutions[k]):
            return k
    return -1
