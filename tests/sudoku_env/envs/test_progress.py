import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sudoku_env.envs.rendering import trace_views
from sudoku_env.generator import generate
from sudoku_env.kernels.unmask import NOT_A_DIGIT
from sudoku_env.logic import definite_digits

DRAWN = generate(8, size=6, clues=(12, 18), rule="singles", seed=4)
PUZZLE, SOLUTION = DRAWN.boards[0], DRAWN.solutions[0]


def filled_in(puzzle, *cells_and_digits):
    """The puzzle, and the board after each cell is filled, one after the other."""
    boards = [puzzle.astype(np.int16)]
    for cell, digit in cells_and_digits:
        boards.append(boards[-1].copy())
        boards[-1][cell] = digit
    return np.stack(boards)


@given(which=st.integers(0, 7), seed=st.integers(0, 2**32 - 1))
def test_a_right_decode_in_any_order(which, seed):
    puzzle, solution = DRAWN.boards[which], DRAWN.solutions[which]
    cells = np.random.default_rng(seed).permutation(np.flatnonzero(puzzle == 0))
    boards = filled_in(puzzle, *((cell, solution[cell]) for cell in cells))
    views = trace_views(boards, solution)
    for step, cell in enumerate(cells, start=1):
        assert views[step].order[cell] == step
        assert views[step].last == cell
        assert views[step].guessed[cell] != (definite_digits(boards[step - 1])[cell] > 0)
        np.testing.assert_array_equal(views[step].definite, definite_digits(boards[step]) > 0)
    assert not views[-1].wrong.any()
    np.testing.assert_array_equal(views[-1].board, solution)


def test_an_error_stays_and_leaves_nothing_definite():
    first, second, third = np.flatnonzero(PUZZLE == 0)[:3]
    wrong = SOLUTION[third] % 6 + 1
    boards = filled_in(PUZZLE, (first, NOT_A_DIGIT), (second, SOLUTION[second]), (third, wrong))
    views = trace_views(boards, SOLUTION)
    assert not views[2].definite.any()
    assert views[2].wrong.nonzero()[0].tolist() == [first]
    assert views[3].wrong.nonzero()[0].tolist() == [first, third]


def test_a_step_outside_the_map_only_counts():
    before, after = trace_views(np.stack([PUZZLE, PUZZLE]), SOLUTION)
    assert after.last is None and not after.wrong.any()
    np.testing.assert_array_equal(after.board, before.board)
    np.testing.assert_array_equal(after.definite, before.definite)


def test_views_are_snapshots_and_the_boards_are_left_alone():
    blank = np.flatnonzero(PUZZLE == 0)[0]
    boards = filled_in(PUZZLE, (blank, SOLUTION[blank]))
    given = boards.copy()
    view, _ = trace_views(boards, SOLUTION)
    assert view.board[blank] == 0 and view.order[blank] == 0
    np.testing.assert_array_equal(boards, given)
