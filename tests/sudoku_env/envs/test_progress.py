import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sudoku_env import definite_digits, generate
from sudoku_env.envs.progress import Progress
from sudoku_env.kernels.unmask import NOT_A_DIGIT

DRAWN = generate(8, size=6, clues=(12, 18), rule="singles", seed=4)


@given(which=st.integers(0, 7), seed=st.integers(0, 2**32 - 1))
def test_a_right_decode_in_any_order(which, seed):
    puzzle, solution = DRAWN.boards[which], DRAWN.solutions[which]
    progress = Progress(puzzle, solution)
    cells = np.random.default_rng(seed).permutation(np.flatnonzero(puzzle == 0))
    for step, cell in enumerate(cells, start=1):
        was_definite = definite_digits(progress.board)[cell] > 0
        progress.fill(np.array([cell]), solution[[cell]])
        assert progress.steps == progress.order[cell] == step
        assert progress.last == cell
        assert progress.guessed[cell] != was_definite
        np.testing.assert_array_equal(progress.definite, definite_digits(progress.board) > 0)
    assert not progress.error
    np.testing.assert_array_equal(progress.board, solution)


def test_an_error_stays_and_leaves_nothing_definite():
    progress = Progress(DRAWN.boards[0], DRAWN.solutions[0])
    first, second, third = np.flatnonzero(DRAWN.boards[0] == 0)[:3]
    progress.fill(np.array([first]), np.array([NOT_A_DIGIT]))
    progress.fill(np.array([second]), DRAWN.solutions[0][[second]])
    assert progress.error and not progress.definite.any()
    assert progress.view().wrong.nonzero()[0].tolist() == [first]
    wrong = DRAWN.solutions[0][third] % 6 + 1
    progress.fill(np.array([third]), np.array([wrong]))
    assert progress.view().wrong.nonzero()[0].tolist() == [first, third]


def test_a_step_outside_the_map_only_counts():
    progress = Progress(DRAWN.boards[0], DRAWN.solutions[0])
    before = progress.view()
    progress.fill(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    assert progress.steps == 1 and progress.last is None and not progress.error
    np.testing.assert_array_equal(progress.board, before.board)
    np.testing.assert_array_equal(progress.definite, before.definite)


def test_views_are_snapshots_and_the_puzzle_is_left_alone():
    puzzle = DRAWN.boards[0].copy()
    progress = Progress(puzzle, DRAWN.solutions[0])
    view = progress.view()
    blank = np.flatnonzero(puzzle == 0)[:1]
    progress.fill(blank, DRAWN.solutions[0][blank])
    assert view.board[blank] == 0 and view.order[blank] == 0
    np.testing.assert_array_equal(puzzle, DRAWN.boards[0])
