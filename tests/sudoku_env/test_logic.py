import numpy as np
import pytest
import sudoku_reference as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env.board import SIZES, as_board, find_conflict
from sudoku_env.errors import BoardError
from sudoku_env.generator import generate
from sudoku_env.logic import candidates, forced_digits, singles_rounds, solve_by_singles
from sudoku_env.solver import solve_batch

PUZZLES = {size: generate(10, size=size, clues=clues, seed=2) for size, clues in [(4, 5), (6, 13), (9, 28), (16, 130)]}
seeds = st.integers(0, 2**32)


def partial_solution(size, rng):
    """A puzzle that singles solve, with some blanks filled in correctly; also its solution."""
    puzzles = PUZZLES[size]
    k = rng.integers(len(puzzles))
    shown = (puzzles.boards[k] > 0) | (rng.random(size * size) < rng.random())
    return np.where(shown, puzzles.solutions[k], 0), puzzles.solutions[k]


def test_candidates_by_hand():
    # 1 2 . .
    # . . . .     row 1 lacks 3 and 4; the column below its third cell holds 3.
    # . . 3 .
    # . . . .
    found = candidates(as_board("12........3....."))
    assert found.shape == (16, 4)
    assert found[2].tolist() == [False, False, False, True]
    assert found[3].tolist() == [False, False, True, True]
    assert not found[[0, 1, 10]].any()


def test_naked_and_hidden_single_by_hand():
    # In the board above the third cell is a naked 4; 3 has one place left in row 1, the fourth cell.
    assert forced_digits(as_board("12........3....."))[[2, 3]].tolist() == [4, 3]


def test_hidden_single_alone():
    board = as_board("""
        . . . . . .
        . . . 1 . .
        . 1 . . . .
        . . . . . .
        . . 1 . . .
        . . . . . .""")
    forced = forced_digits(board)
    assert forced[0] == 1 and candidates(board)[0].sum() == 6
    assert reference.forced(board)[0] == 1


def test_two_hidden_singles_in_one_cell():
    # Row 1 has only its first cell for 2, and column 1 only the same cell for 1: the row comes first.
    assert forced_digits(as_board("......21.21....1"))[0] == 2
    # Row 1 has only its first cell for 1 and for 2: the lower digit comes first.
    assert forced_digits(as_board("......21.2...1.."))[0] == 1


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([4, 6, 9]), st.floats(0, 1), seeds)
def test_against_the_definitions(size, share, seed):
    """On boards of random digits, nearly all of them contradictory."""
    rng = np.random.default_rng(seed)
    board = np.where(rng.random(size * size) < share, rng.integers(1, size + 1, size * size), 0)
    found = candidates(board)
    assert [set(np.flatnonzero(row) + 1) for row in found] == reference.candidates(board)
    assert forced_digits(board).tolist() == reference.forced(board)
    solve_by_singles(board)
    assert singles_rounds(board) >= -1


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SIZES), seeds)
def test_partial_solutions_have_sound_forced_digits(size, seed):
    board, solution = partial_solution(size, np.random.default_rng(seed))
    forced = forced_digits(board)
    assert (forced[forced > 0] == solution[forced > 0]).all()
    assert not forced[board > 0].any()
    assert forced.any() == (board == 0).any()
    assert (solve_by_singles(board) == solution).all()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SIZES), seeds)
def test_symmetry(size, seed):
    rng = np.random.default_rng(seed)
    board, _ = partial_solution(size, rng)
    board = np.where(rng.random(board.size) < 0.8, board, 0)
    cells, digits = (np.array(part) for part in reference.random_symmetry(size, rng))
    assert (forced_digits(digits[board[cells]]) == digits[forced_digits(board)[cells]]).all()
    assert (candidates(digits[board[cells]])[:, digits[1:] - 1] == candidates(board)[cells]).all()
    assert singles_rounds(digits[board[cells]]) == singles_rounds(board)


def test_batch_agrees_with_single_boards():
    boards = PUZZLES[6].boards
    assert forced_digits(boards).tolist() == [forced_digits(board).tolist() for board in boards]
    assert candidates(boards).tolist() == [candidates(board).tolist() for board in boards]
    assert forced_digits(np.zeros((16, 16), int)).shape == (16, 16)
    assert candidates(boards[:0]).shape == (0, 36, 6)
    for wrong in (np.zeros((4, 4), int), np.full(16, 5), np.full((2, 36), -1)):
        with pytest.raises(BoardError):
            forced_digits(wrong)


def test_rounds():
    grid = as_board("1234341221434321")
    assert singles_rounds(grid) == 0
    one_round = np.where(np.arange(16) % 5 == 0, 0, grid)
    assert singles_rounds(one_round) == 1
    for board in PUZZLES[6].boards:
        rounds, filled = singles_rounds(board), board.copy()
        for _ in range(rounds):
            assert (filled == 0).any()
            filled = filled + np.array(reference.forced(filled))
        assert (filled == solve_by_singles(board)).all() and find_conflict(filled) is None


def test_rounds_of_boards_that_singles_do_not_solve():
    assert singles_rounds([0] * 36) == -1 and not solve_by_singles([0] * 36).any()
    assert singles_rounds([1] * 16) == -1
    hard = generate(60, size=9, clues=25, seed=3, rule="unique")
    stuck = [board for board in hard.boards if singles_rounds(board) == -1]
    assert stuck
    for board in stuck:
        filled = solve_by_singles(board)
        assert not any(reference.forced(filled))
        assert (solve_batch(filled[None])[0] == solve_batch(board[None])[0]).all()
