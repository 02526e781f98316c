"""Solutions of a board, how many there are and whether there is one, against backtracking and all grids of 4×4."""

from itertools import combinations, islice, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import completable, count_solutions, generate, solutions, solve, solve_batch
from sudoku_env.board import SIZES, is_solved
from sudoku_env.errors import BoardError
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers import sudoku_reference as reference
from tests.sudoku_env.helpers.every_grid import every_grid, random_board, solutions_of

GRIDS = {size: generate(20, size=size, clues=size * size, seed=5).solutions for size in (4, 6)}


@st.composite
def thinned_boards(draw):
    """Part of a solved grid, often with some digits replaced, so 0, 1 or many solutions."""
    size = draw(st.sampled_from([4, 6]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    board = np.where(rng.random(size * size) < rng.uniform(0.3, 0.9), rng.choice(GRIDS[size]), 0)
    replaced = draw(st.integers(0, 3))
    board[rng.integers(size * size, size=replaced)] = rng.integers(1, size + 1, size=replaced)
    return board


@settings(max_examples=250)
@given(thinned_boards(), st.integers(1, 6))
def test_solutions_against_backtracking(board, limit):
    before = board.copy()
    expected = list(islice(reference.solutions(board), limit))
    assert count_solutions(board, limit) == len(expected)
    assert completable(board[None])[0] == bool(expected)
    solution = solve(board)
    if expected:
        assert is_solved(solution) and (solution[board > 0] == board[board > 0]).all()
        assert len(expected) < limit or count_solutions(solution) == 1
    else:
        assert solution is None
    assert (board == before).all()


@settings(max_examples=50)
@given(thinned_boards(), st.integers(1, 40))
def test_all_solutions_are_those_of_backtracking(board, limit):
    expected = {tuple(map(int, found)) for found in islice(reference.solutions(board), 500)}
    found = [tuple(solution.tolist()) for solution in islice(solutions(board), 500)]
    assert len(set(found)) == len(found) == len(expected) and (len(found) == 500 or set(found) == expected)
    assert [tuple(solution.tolist()) for solution in solutions(board, limit)] == found[:limit]


def test_solutions_are_looked_for_as_they_are_asked_for():
    for size in SIZES:
        some = list(islice(solutions(np.zeros(size * size, int)), 5))
        assert len({solution.tobytes() for solution in some}) == 5 and all(map(is_solved, some))
    refused("limit must be at least 1, got 0", lambda: solutions("." * 16, 0), BoardError)


def test_all_grids_are_found():
    """288 grids of 4×4; of the 28,200,960 of 6×6 one in 6! begins with 1 2 3 4 5 6."""
    assert count_solutions(np.zeros(16, int), limit=1000) == 288
    assert count_solutions([1, 2, 3, 4, 5, 6] + [0] * 30, limit=10**6) == 28_200_960 // 720


@pytest.mark.parametrize("size", SIZES)
def test_every_size(size):
    clues = {4: 6, 6: 12, 9: 28, 16: 120}[size]
    puzzles = generate(5, size=size, clues=clues, seed=1)
    solutions, counts = solve_batch(puzzles.boards, limit=2)
    assert (solutions == puzzles.solutions).all() and (counts == 1).all()
    assert is_solved(solve(np.zeros(size * size, int)))


def test_batch_agrees_with_single_boards():
    rng = np.random.default_rng(0)
    boards = np.where(rng.random((20, 36)) < 0.4, GRIDS[6], 0)
    boards[3, :2] = 1
    solutions, counts = solve_batch(boards, limit=3)
    assert solutions.dtype == np.uint8 and counts.dtype == np.int64
    assert counts.tolist() == [count_solutions(board, 3) for board in boards]
    assert counts[3] == 0 and not solutions[3].any() and solve(boards[3]) is None
    for board, solution, count in zip(boards, solutions, counts, strict=True):
        assert count == 0 or (solve(board) == solution).all()
    assert solve_batch(boards[:0])[0].shape == (0, 36)


def test_a_clash_in_a_full_board_has_no_solution():
    grid = GRIDS[4][0].copy()
    grid[0] = grid[1]
    assert solve(grid) is None and count_solutions(grid) == 0
    assert (solve(GRIDS[4][0]) == GRIDS[4][0]).all()


def test_text_and_errors():
    assert is_solved(solve("1... .... .... ....".replace(" ", "\n"), size=4))
    refused("expected 36", lambda: solve("." * 16, size=6), BoardError)
    refused("limit", lambda: count_solutions([0] * 16, limit=0), BoardError)
    refused("use solve for one board", lambda: solve_batch(np.zeros(16, int)), BoardError)


# which boards have a solution


def test_boards_of_four_against_all_grids():
    boards = [random_board(rng) for rng in map(np.random.default_rng, range(2000))]
    for cells in combinations(range(16), 2):
        for digits in product(range(1, 5), repeat=2):
            boards.append(np.zeros(16, np.uint8))
            boards[-1][list(cells)] = digits
    boards = np.array([*boards, *every_grid()])
    expected = np.array([len(solutions_of(board)) > 0 for board in boards])
    found = completable(boards)
    assert found.dtype == np.bool_ and found.shape == (len(boards),)
    assert (found == expected).all() and expected.any() and not expected.all()
    assert (completable(boards.astype(np.int64), threads=2) == expected).all()


@pytest.mark.parametrize("size", SIZES)
def test_completable_of_every_size(size):
    (grid,) = generate(1, size=size, clues=size * size, seed=1).solutions
    clash, taken = grid.copy(), np.zeros_like(grid)
    clash[0] = clash[1]
    # The first cell of a blank board whose peers hold every digit: a row without n, and n in the column.
    taken[1:size] = np.arange(1, size)
    taken[size * (size - 1)] = size
    boards = np.array([grid, clash, np.zeros_like(grid), taken])
    assert completable(boards).tolist() == [True, False, True, False]
    assert completable(boards[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("boards", "message"),
    [
        (np.zeros(16, int), "completable needs boards of shape"),
        (np.zeros((2, 17), int), "17 cells do not make a board"),
        (np.full((2, 16), 5), "holds 5"),
        (np.zeros((2, 16)), "need integers"),
    ],
)
def test_what_is_no_batch_of_boards_is_refused(boards, message):
    refused(message, lambda: completable(boards), BoardError)
    refused("threads must be at least 1", lambda: completable(np.zeros((2, 16), int), threads=0), BoardError)
