"""4×4 and 6×6 boards, a row to a word, against all grids of 4×4 and against the search for any size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import completable, generate, solve, solve_batch
from sudoku_env.board import geometry
from sudoku_env.kernels.general import search_batch
from sudoku_env.kernels.row_words import DEAD, SOLVED, STUCK, fill_row_singles, new_stack, read_rows, write_rows
from sudoku_env.kernels.search_state import LEFT, STATE, Search
from tests.sudoku_env.helpers.every_grid import every_grid, random_board, solutions_of

GRIDS = {size: generate(20, size=size, clues=size * size, seed=5).solutions for size in (4, 6, 9)}


def by_general_search(boards, limit):
    """What `solve_batch` returns, by `kernels.general` for any size."""
    cells = boards.shape[1]
    size = int(cells**0.5)
    table = geometry(size)
    search = Search(
        np.zeros(STATE, np.int64), np.empty(cells, np.uint8), None, np.empty((6, cells), np.int64),
        np.empty(3 * size, np.int64), np.empty(cells, np.uint8), np.empty(0, np.uint64),
    )  # fmt: skip
    search.state[LEFT] = 10**9
    solutions, counts = np.zeros_like(boards), np.zeros(len(boards), np.int64)
    assert search_batch(0, boards, table.units, table.units_of, limit, solutions, counts, search) == len(boards)
    return solutions, counts


def some_boards(size, count, seed):
    """Grids with some digits taken away and some replaced, an empty board, a full grid, and one with a clash."""
    rng = np.random.default_rng(seed)
    cells = size * size
    boards = GRIDS[size][rng.integers(20, size=count)].copy()
    # From 27 clues on the general search is short on 9×9 too.
    fewest = 27 if size == 9 else 0
    for board in boards:
        board[rng.permutation(cells)[rng.integers(fewest, cells + 1) :]] = 0
        for cell in rng.integers(cells, size=rng.integers(4)):
            board[cell] = rng.integers(1, size + 1)
    clash = GRIDS[size][0].copy()
    clash[cells - 1] = clash[cells - 2]
    return np.concatenate([boards, [np.zeros(cells, np.uint8), GRIDS[size][1], clash]])


@settings(max_examples=60)
@given(st.sampled_from([4, 6]), st.integers(1, 20), st.integers(0, 2**32))
def test_solutions_counts_and_order_are_those_of_the_general_search(size, limit, seed):
    boards = some_boards(size, 30, seed)
    before = boards.copy()
    solutions, counts = by_general_search(boards, limit)
    for threads in (1, 2):
        found, number = solve_batch(boards, limit=limit, threads=threads)
        assert (found == solutions).all() and (number == counts).all()
    assert (boards == before).all()


@settings(max_examples=60)
@given(st.sampled_from([4, 6, 9]), st.integers(0, 2**32))
def test_what_can_be_completed_is_what_the_general_search_completes(size, seed):
    boards = some_boards(size, 30, seed)
    expected = by_general_search(boards, 1)[1] > 0
    assert expected[-3:].tolist() == [True, True, False]
    assert (completable(boards) == expected).all()


def test_threads_that_share_the_boards_come_to_the_same():
    boards = np.resize(some_boards(6, 500, 0), (3000, 36))  # several shares
    solutions, counts = solve_batch(boards, limit=3)
    shared = solve_batch(boards, limit=3, threads=2)
    assert (shared[0] == solutions).all() and (shared[1] == counts).all()
    assert (completable(boards, threads=2) == (counts > 0)).all()


def test_all_solutions_of_boards_of_four():
    rng = np.random.default_rng(0)
    boards = np.array([*(random_board(rng) for _ in range(1000)), np.zeros(16, np.uint8), *every_grid()])
    solutions, counts = solve_batch(boards, limit=1000)
    for board, solution, count in zip(boards, solutions, counts, strict=True):
        among = solutions_of(board)
        assert count == len(among)
        assert (among == solution).all(1).any() if count else not solution.any()
    assert set(counts) >= {0, 1, 2, 288}


@pytest.mark.parametrize("size", [4, 6])
def test_a_digit_twice_in_a_unit_is_seen_before_any_search(size):
    words = new_stack(size)[0][0]
    for unit in geometry(size).units:
        for one, other in ((0, 1), (0, size - 1), (size // 2 - 1, size // 2)):
            board = np.zeros(size * size, np.uint8)
            board[unit[[one, other]]] = size
            assert not read_rows(board, size, words)
            board[unit[one]] = 1
            assert read_rows(board, size, words)


@pytest.mark.parametrize("size", [4, 6])
def test_singles_complete_a_grid_and_leave_an_empty_board_stuck(size):
    words, scratch = new_stack(size)[0][:2]
    written = np.empty(size * size, np.uint8)
    for grid in GRIDS[size]:
        board = grid.copy()
        board[:size] = 0  # naked singles in every column
        read_rows(board, size, words)
        assert fill_row_singles(words, scratch, size) == SOLVED
        write_rows(words, size, written)
        assert (written == grid).all()
    read_rows(np.zeros(size * size, np.uint8), size, words)
    before = words[:size].copy()
    assert fill_row_singles(words, scratch, size) == STUCK and (words[:size] == before).all()


def test_a_hidden_single_is_filled_and_its_contradiction_found():
    words, scratch = new_stack(4)[0][:2]
    board = np.zeros((4, 4), np.uint8)
    # A 1 in row 2 and one in column 4 leave it the third cell of row 1.
    board[1, 0], board[3, 3] = 1, 1
    read_rows(board.ravel(), 4, words)
    assert fill_row_singles(words, scratch, 4) == STUCK
    assert (words[0] >> 8) & 15 == 1
    # With another digit there the 1 has no place in the row.
    board[0, 2] = 2
    assert read_rows(board.ravel(), 4, words)
    assert fill_row_singles(words, scratch, 4) == DEAD
    assert solve(board) is None and solutions_of(board.ravel()).size == 0


@pytest.mark.parametrize("size", [4, 6])
def test_two_cells_of_a_unit_with_the_same_only_digit_are_a_contradiction(size):
    words, scratch = new_stack(size)[0][:2]
    for unit in geometry(size).units:
        for one, other in ((0, 1), (0, size - 1)):
            read_rows(np.zeros(size * size, np.uint8), size, words)
            for cell in unit[[one, other]]:
                words[cell // size] &= ~((2**size - 2) << int(size * (cell % size)))  # 1 alone is left
            assert fill_row_singles(words, scratch, size) == DEAD


@pytest.mark.parametrize("size", [4, 6])
def test_two_digits_with_one_cell_left_for_both_are_a_contradiction(size):
    words, scratch = new_stack(size)[0][:2]
    for unit in geometry(size).units:
        read_rows(np.zeros(size * size, np.uint8), size, words)
        for cell in unit[1:]:
            words[cell // size] &= ~(3 << int(size * (cell % size)))
        assert fill_row_singles(words, scratch, size) == DEAD
