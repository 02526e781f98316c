"""Puzzles by thinning out random grids.

A clue that had to stay has to stay for good: what rules find only grows with the digits on the board, and taking clues
away never makes solutions fewer. Hence one pass over the clues ends at an irreducible puzzle, and several clues may go
in one test without changing the outcome.

Shared arguments: `board` uint8 `(n²,)`; `ceiling`, an index in the
ladder's `RULES`: the hardest rule allowed, where under `BACKBONE` every puzzle with one solution passes; `table`,
`ladder_table(n)`; `ladder`, `new_work(n)`, or None if the ladder is not needed, which saves compiling it: for
`HIDDEN_SINGLE` and `BACKBONE`; `bench`, the work space `Bench`; `search`, `new_search(n)`.

An attempt is given up where its searches have used up `search.state[LEFT]`. A test that was not finished counts as
failed, so that the clue stays, until `make_attempt` sees that nothing is left.
"""

from typing import NamedTuple

import numpy as np

from sudoku_env.board import Board
from sudoku_env.kernels.backbone import NOT_BEGUN
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.general import digit_of, find_singles
from sudoku_env.kernels.grids import random_grid
from sudoku_env.kernels.ladder import grade
from sudoku_env.kernels.ladder_state import BACKBONE, HIDDEN_SINGLE, Table, Work
from sudoku_env.kernels.random import Int, Ints, State, next_random, random_below, shuffle
from sudoku_env.kernels.search import begin, begin_beside, choose, run
from sudoku_env.kernels.search_state import DEFINITE, LEFT, MASKS, PHASE, Search
from sudoku_env.kernels.singles import definite9

# Entries of Bench.progress
PUZZLE, ATTEMPT, WANTED, FEWEST, GIVEN_UP = range(5)


class Recipe(NamedTuple):
    """What the puzzles have to be like.

    Attributes:
        targets: int64 `(T,)`, the numbers of clues to draw from; empty to take away as many as the rule lets go.
        minimal: Whether each clue has to be necessary for one solution.
        floor: The hardest rule needed is at least this one.
        ceiling: The hardest rule needed is at most this one.
        reduced: uint8 `(M, n²)`, the reduced grids that `kernels.grids.random_grid` takes.
        attempts: Grids to try for a puzzle.
        guesses: What the searches of an attempt may use up, as `search.state[LEFT]`.
    """

    targets: Ints
    minimal: bool
    floor: Int
    ceiling: Int
    reduced: Board
    attempts: Int
    guesses: Int


class Bench(NamedTuple):
    """Work space of one thread, from `new_bench`, and how far it is.

    Attributes:
        scratch: uint8 `(n²,)`.
        digits: uint8 `(n²,)`.
        order: int64 `(n²,)`, the order in which clues go.
        places: int64 `(2, 9, 9)`.
        rng: uint64 `(1,)`, the random numbers of the puzzle.
        progress: int64 `(5,)`: the PUZZLE that is being made; of that one the last ATTEMPT, from 1, the number of clues
            WANTED, the FEWEST clues of any attempt, and how many attempts were GIVEN_UP.
    """

    scratch: Board
    digits: Board
    order: Ints
    places: Ints
    rng: State
    progress: Ints


def new_bench(size: int) -> Bench:
    """Work space for puzzles of a size."""
    return Bench(
        np.empty(size * size, np.uint8),
        np.empty(size * size, np.uint8),
        np.empty(size * size, np.int64),
        np.empty((2, 9, 9), np.int64),
        np.empty(1, np.uint64),
        np.zeros(5, np.int64),
    )


@kernel(inline="always")
def is_unique(board: Board, table: Table, search: Search) -> bool:
    """Whether a board is known to have exactly one solution."""
    begin(board, table.units_of, search)
    return run(table.units, table.units_of, 2, search.other, search) == 1


@kernel(inline="always")
def has_other(board: Board, cell: Int, digit: Int, table: Table, search: Search) -> bool:
    """Whether a board, blank in `cell`, may have a solution with another digit than `digit` there."""
    begin_beside(board, cell, digit, table.units_of, search)
    return run(table.units, table.units_of, 1, search.other, search) != 0


@kernel
def add_singles9(board: Board, bench: Bench, search: Search) -> bool:
    """`add_singles` for 9×9."""
    definite9(board, bench.digits, search.words)
    found = False
    for cell in range(81):
        found = found or bench.digits[cell] != 0
        board[cell] += bench.digits[cell]
    return found


@kernel
def add_any_singles(board: Board, table: Table, search: Search) -> bool:
    """`add_singles` for the other sizes."""
    definite = search.stacks[DEFINITE]
    find_singles(board, table.units, table.units_of, search.used, search.stacks[MASKS], definite)
    found = False
    for cell in range(board.size):
        if definite[cell]:
            found = True
            board[cell] = digit_of(definite[cell])
    return found


def add_singles(board: Board, table: Table, bench: Bench, search: Search) -> bool:
    """Write all naked and hidden singles into a board that has a solution; False if there are none."""
    raise NotImplementedError("for kernels only")


choose(
    add_singles,
    lambda board, table, bench, search: add_singles9(board, bench, search),
    lambda board, table, bench, search: add_any_singles(board, table, search),
)


@kernel(inline="always")
def singles_fill(board: Board, cell: Int, table: Table, bench: Bench, search: Search) -> bool:
    """Whether singles, round by round, fill a cell of a board that has a solution, or all of it if the cell is −1."""
    scratch = bench.scratch
    for other in range(board.size):
        scratch[other] = board[other]
    while cell < 0 or scratch[cell] == 0:
        if not add_singles(scratch, table, bench, search):
            break
    if cell >= 0:
        return scratch[cell] != 0
    for other in range(scratch.size):
        if scratch[other] == 0:
            return False
    return True


@kernel(inline="always")
def holds(board: Board, ceiling: Int, table: Table, ladder: Work | None, bench: Bench, search: Search) -> bool:
    """Whether the rules up to the ceiling solve a board that has a solution."""
    if ceiling == HIDDEN_SINGLE:
        return singles_fill(board, -1, table, bench, search)
    if not is_unique(board, table, search):
        return False
    if ladder is not None and ceiling < BACKBONE:
        return grade(board, table, ceiling, ladder, search) >= 0
    return True


@kernel(inline="always")
def holds_without(
    board: Board,
    cell: Int,
    digit: Int,
    ceiling: Int,
    table: Table,
    ladder: Work | None,
    bench: Bench,
    search: Search,
) -> bool:
    """Whether the rules up to the ceiling solve a board, blank in `cell`, that they solve with `digit` there."""
    fast_search = board.size == 81  # faster than singles
    if fast_search and has_other(board, cell, digit, table, search):
        return False
    if HIDDEN_SINGLE <= ceiling < BACKBONE:
        filled = singles_fill(board, cell, table, bench, search)
        if filled or ceiling == HIDDEN_SINGLE:
            return filled
    if not fast_search and has_other(board, cell, digit, table, search):
        return False
    if ladder is not None and ceiling < BACKBONE:
        return grade(board, table, ceiling, ladder, search) >= 0
    return True


@kernel
def thin_out(
    board: Board,
    solution: Board,
    target: Int,
    ceiling: Int,
    table: Table,
    ladder: Work | None,
    bench: Bench,
    search: Search,
) -> Int:
    """Take clues from a full board, in the order `bench.order`, while the rules still solve it.

    Many go at once first, fewer and fewer as that fails.

    Returns:
        Number of clues left, at least `target`; the rules solve what is left, also where the work was cut short.
    """
    clues = board.size
    at_once = max(1, board.size // 3)
    first = 0
    while first < board.size and clues > target and search.state[LEFT] > 0:
        # Take some away, and ask whether the rules still do without them.
        end = min(first + at_once, board.size)
        for k in range(first, end):
            board[bench.order[k]] = 0
        if clues - (end - first) < target:
            fine = False
        elif end - first == 1:
            cell = bench.order[first]
            fine = holds_without(board, cell, np.int64(solution[cell]), ceiling, table, ladder, bench, search)
        else:
            fine = holds(board, ceiling, table, ladder, bench, search)
        if fine:
            clues -= end - first
            first = end
            continue
        # They do not: these go back, and fewer are tried; one that cannot go alone stays for good.
        for k in range(first, end):
            board[bench.order[k]] = solution[bench.order[k]]
        if at_once > 1:
            at_once //= 2
        else:
            first = end
    return clues


@kernel
def begin_puzzle(seed: np.uint64, number: Int, recipe: Recipe, bench: Bench) -> None:
    """Set the random numbers of a puzzle, and draw how many clues it gets."""
    rng, progress = bench.rng, bench.progress
    rng[0] = seed
    rng[0] = next_random(rng) + np.uint64(number)
    rng[0] = next_random(rng)
    progress[WANTED] = 0
    if recipe.targets.size:
        progress[WANTED] = recipe.targets[random_below(rng, recipe.targets.size)]
    progress[FEWEST], progress[GIVEN_UP] = bench.scratch.size, 0


@kernel(inline="always")
def make_attempt(
    recipe: Recipe,
    table: Table,
    ladder: Work | None,
    bench: Bench,
    search: Search,
    board: Board,
    solution: Board,
) -> bool:
    """Draw a grid and thin it out; whether the puzzle and its solution, both uint8 `(n²,)`, came out as wanted."""
    state, progress, wanted = search.state, bench.progress, bench.progress[WANTED]
    target = 0 if recipe.minimal else wanted
    ceiling = BACKBONE if recipe.minimal else recipe.ceiling
    random_grid(bench.rng, table.units, table.units_of, recipe.reduced, bench.places, solution, search)
    for cell in range(board.size):
        board[cell] = solution[cell]
    for k in range(bench.order.size):
        bench.order[k] = k
    shuffle(bench.order, bench.rng)
    state[LEFT], state[PHASE] = recipe.guesses, NOT_BEGUN
    clues = thin_out(board, solution, target, ceiling, table, ladder, bench, search)
    progress[FEWEST] = min(progress[FEWEST], clues)
    fine = state[LEFT] > 0 and (recipe.targets.size == 0 or clues == wanted)
    if fine and ceiling != recipe.ceiling:
        fine = holds(board, recipe.ceiling, table, ladder, bench, search)
    if ladder is not None:
        if fine and recipe.floor:
            fine = grade(board, table, recipe.ceiling, ladder, search) >= recipe.floor
    if state[LEFT] <= 0:
        progress[GIVEN_UP] += 1
        return False
    return fine


@kernel(nogil=True)
def generate_range(
    turns: Int,
    seed: np.uint64,
    first: Int,
    recipe: Recipe,
    table: Table,
    ladder: Work | None,
    bench: Bench,
    search: Search,
    boards: Board,
    solutions: Board,
) -> bool:
    """Fill `boards` and `solutions`, uint8 `(N, n²)`, with the puzzles from number `first` on, by so many attempts.

    A puzzle depends on the seed, its number and the recipe alone.

    Returns:
        Whether that is all there is to do: N puzzles are made, or one has had all its attempts. If not, the next call
        goes on. `bench.progress` says how far it is.
    """
    progress = bench.progress
    for _ in range(turns):
        k = progress[PUZZLE]
        if k == boards.shape[0] or progress[ATTEMPT] == recipe.attempts:
            return True
        if progress[ATTEMPT] == 0:
            begin_puzzle(seed, first + k, recipe, bench)
        progress[ATTEMPT] += 1
        if make_attempt(recipe, table, ladder, bench, search, boards[k], solutions[k]):
            progress[PUZZLE], progress[ATTEMPT] = k + 1, 0
    return progress[PUZZLE] == boards.shape[0] or progress[ATTEMPT] == recipe.attempts
