import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sudoku_env import definite_digits, generate
from sudoku_env.envs.progress import Progress
from sudoku_env.kernels.unmask import NOT_A_DIGIT

DRAWN = generate(8, size=6, clues=(12, 18), rule="singles", seed=4)


def begun(which=0):
    return DRAWN.boards[which], DRAWN.solutions[which], Progress(DRAWN.boards[which], DRAWN.solutions[which])


@given(st.integers(0, 7), st.integers(0, 2**32).map(np.random.default_rng))
def test_a_right_decode_in_any_order(which, rng):
    puzzle, solution, progress = begun(which)
    for step, cell in enumerate(rng.permutation(np.flatnonzero(puzzle == 0)), start=1):
        was_definite = definite_digits(progress.board)[cell] > 0
        progress.fill(np.array([cell]), solution[[cell]])
        assert progress.steps == progress.order[cell] == step and progress.last == cell
        assert progress.guessed[cell] != was_definite
        np.testing.assert_array_equal(progress.definite, definite_digits(progress.board) > 0)
    assert not progress.error
    np.testing.assert_array_equal(progress.board, solution)


def test_an_error_stays_and_leaves_nothing_definite():
    puzzle, solution, progress = begun()
    first, second, third = np.flatnonzero(puzzle == 0)[:3]
    progress.fill(np.array([first]), np.array([NOT_A_DIGIT]))
    progress.fill(np.array([second]), solution[[second]])
    assert progress.error and not progress.definite.any()
    assert progress.view().wrong.nonzero()[0].tolist() == [first]
    progress.fill(np.array([third]), solution[[third]] % 6 + 1)
    assert progress.view().wrong.nonzero()[0].tolist() == [first, third]


def test_a_step_outside_the_map_only_counts():
    *_, progress = begun()
    before = progress.view()
    progress.fill(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    assert progress.steps == 1 and progress.last is None and not progress.error
    np.testing.assert_array_equal(progress.board, before.board)
    np.testing.assert_array_equal(progress.definite, before.definite)


def test_views_are_snapshots_and_the_puzzle_is_left_alone():
    puzzle, solution, progress = begun()
    before, view = puzzle.copy(), progress.view()
    blank = np.flatnonzero(puzzle == 0)[:1]
    progress.fill(blank, solution[blank])
    assert view.board[blank] == 0 and view.order[blank] == 0
    np.testing.assert_array_equal(puzzle, before)
