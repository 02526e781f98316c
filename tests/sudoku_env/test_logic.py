import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import generate, solve_batch
from sudoku_env.board import SIZES, as_board, find_conflict
from sudoku_env.errors import BoardError
from sudoku_env.logic import RULE_GROUPS, RULES, candidates, definite_cells, definite_digits
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers import ladder_reference
from tests.sudoku_env.helpers import sudoku_reference as reference
from tests.sudoku_env.helpers.every_grid import backbone_of, random_board, random_digits
from tests.sudoku_env.helpers.ladder_examples import exchange
from tests.sudoku_env.helpers.singles import singles_rounds, solve_by_singles

PUZZLES = {
    size: generate(10, size=size, clues=clues, rule="singles", seed=2)
    for size, clues in [(4, 5), (6, 13), (9, 28), (16, 130)]
}
rngs = st.integers(0, 2**32).map(np.random.default_rng)


def partial_solution(size, rng):
    """A puzzle that singles solve, with some blanks filled in correctly; also its solution."""
    puzzles = PUZZLES[size]
    k = rng.integers(len(puzzles))
    shown = (puzzles.boards[k] > 0) | (rng.random(size * size) < rng.random())
    return np.where(shown, puzzles.solutions[k], 0), puzzles.solutions[k]


def test_candidates_and_singles_by_hand():
    # 1 2 . .
    # . . . .     row 1 lacks 3 and 4; the column below its third cell holds 3.
    # . . 3 .
    # . . . .
    board = as_board("12........3.....")
    found = candidates(board)
    assert found.shape == (16, 4) and not found[[0, 1, 10]].any()
    assert found[[2, 3]].tolist() == [[False, False, False, True], [False, False, True, True]]
    # The third cell is a naked 4; 3 has one place left in row 1, the fourth cell.
    assert definite_digits(board)[[2, 3]].tolist() == [4, 3]


def test_hidden_single_alone():
    board = as_board("""
        . . . . . .
        . . . 1 . .
        . 1 . . . .
        . . . . . .
        . . 1 . . .
        . . . . . .""")
    definite = definite_digits(board)
    assert definite[0] == 1 and candidates(board)[0].sum() == 6
    assert reference.definite(board)[0] == 1


def test_two_hidden_singles_in_one_cell():
    # Row 1 has only its first cell for 2, and column 1 only the same cell for 1: the row comes first.
    assert definite_digits(as_board("......21.21....1"))[0] == 2
    # Row 1 has only its first cell for 1 and for 2: the lower digit comes first.
    assert definite_digits(as_board("......21.2...1.."))[0] == 1


@settings(max_examples=150)
@given(st.sampled_from([4, 6, 9]), st.floats(0, 1), rngs)
def test_against_the_definitions(size, share, rng):
    """Candidates and singles agree with the reference on boards of random digits, nearly all of them contradictory."""
    board = random_digits(1, size, share, rng)[0]
    assert [set(np.flatnonzero(row) + 1) for row in candidates(board)] == reference.candidates(board)
    assert definite_digits(board).tolist() == reference.definite(board)
    assert singles_rounds(board) >= -1


@settings(max_examples=100)
@given(st.sampled_from(SIZES), rngs)
def test_partial_solutions_have_sound_definite_digits(size, rng):
    board, solution = partial_solution(size, rng)
    definite = definite_digits(board)
    assert (definite[definite > 0] == solution[definite > 0]).all()
    assert not definite[board > 0].any()
    assert definite.any() == (board == 0).any()
    assert (solve_by_singles(board) == solution).all()


@settings(max_examples=100)
@given(st.sampled_from(SIZES), rngs)
def test_symmetry(size, rng):
    board, _ = partial_solution(size, rng)
    board = np.where(rng.random(board.size) < 0.8, board, 0)
    cells, digits = reference.random_symmetry(size, rng)
    assert (definite_digits(digits[board[cells]]) == digits[definite_digits(board)[cells]]).all()
    assert (candidates(digits[board[cells]])[:, digits[1:] - 1] == candidates(board)[cells]).all()
    assert singles_rounds(digits[board[cells]]) == singles_rounds(board)


def test_batch_agrees_with_single_boards():
    boards = PUZZLES[6].boards
    assert definite_digits(boards).tolist() == [definite_digits(board).tolist() for board in boards]
    assert candidates(boards).tolist() == [candidates(board).tolist() for board in boards]
    assert definite_digits(np.zeros((16, 16), int)).shape == (16, 16)
    assert candidates(boards[:0]).shape == (0, 36, 6)
    for wrong in (np.zeros((4, 4), int), np.full(16, 5), np.full((2, 36), -1)):
        with pytest.raises(BoardError):
            definite_digits(wrong)


def test_rounds():
    grid = as_board("1234341221434321")
    assert singles_rounds(grid) == 0
    one_round = np.where(np.arange(16) % 5 == 0, 0, grid)
    assert singles_rounds(one_round) == 1
    for board in PUZZLES[6].boards:
        rounds, filled = singles_rounds(board), board.copy()
        for _ in range(rounds):
            assert (filled == 0).any()
            filled = filled + np.array(reference.definite(filled))
        assert (filled == solve_by_singles(board)).all() and find_conflict(filled) is None


def test_rounds_of_boards_that_singles_do_not_solve():
    assert singles_rounds([0] * 36) == -1 and not solve_by_singles([0] * 36).any()
    assert singles_rounds([1] * 16) == -1
    hard = generate(60, size=9, clues=25, seed=3)
    stuck = [board for board in hard.boards if singles_rounds(board) == -1]
    assert stuck
    for board in stuck:
        filled = solve_by_singles(board)
        assert not any(reference.definite(filled))
        assert (solve_batch(filled[None])[0] == solve_batch(board[None])[0]).all()


HARD = {
    4: generate(60, size=4, clues=(4, 6), seed=8).boards,
    6: generate(60, size=6, clues=(9, 13), seed=8).boards,
    9: np.concatenate([exchange(tier) for tier in ("medium", "hard", "diabolical")]),
}


def opened(size, rng):
    """A unique puzzle with some clues taken away or correct digits added, so it has at least one solution."""
    board = HARD[size][rng.integers(len(HARD[size]))]
    solution = solve_batch(board[None])[0][0]
    if rng.random() < 0.5:
        return np.where(rng.random(board.size) < 0.1, 0, board)
    return np.where(rng.random(board.size) < 0.2, solution, board)


@settings(max_examples=100)
@given(st.sampled_from([4, 6, 9]), st.floats(0, 1), rngs)
def test_definite_cells_by_singles_are_the_definite_digits(size, share, rng):
    """The claim holds on any board, the contradictory ones included; and no rule trips over those."""
    boards = random_digits(4, size, share, rng)
    assert (definite_cells(boards) == definite_digits(boards)).all()
    assert (definite_cells(boards, "hidden_single") == definite_digits(boards)).all()
    options = candidates(boards)
    naked = np.where(options.sum(-1) == 1, options.argmax(-1) + 1, 0)
    assert (definite_cells(boards, "naked_single") == naked).all()
    for rule in RULES:
        definite = definite_cells(boards, rule)
        assert not definite[boards > 0].any()
        assert np.take_along_axis(options, definite.astype(int)[..., None] - 1, -1)[definite > 0].all()


@settings(max_examples=60)
@given(st.sampled_from([4, 6, 9]), rngs)
def test_definite_cells_only_grow_up_the_ladder(size, rng):
    board = opened(size, rng)
    easier = definite_cells(board, RULES[0])
    for rule in RULES[1:]:
        harder = definite_cells(board, rule)
        assert (harder[easier > 0] == easier[easier > 0]).all()
        easier = harder
    # `easier` is the backbone now: what stands in every solution stands in any one of them.
    solution = solve_batch(board[None])[0][0]
    assert (easier[easier > 0] == solution[easier > 0]).all()


@pytest.mark.parametrize("size", [4, 6, 9])
def test_definite_cells_against_the_reference(size):
    rng = np.random.default_rng(size)
    for _ in range(6):
        board = opened(size, rng)
        for last in (3, 5, 9, 12, 16):
            expected = ladder_reference.definite(board.tolist(), RULES[2 : last + 1])
            definite = definite_cells(board, RULES[last])
            assert {cell: int(definite[cell]) for cell in np.flatnonzero(definite)} == expected


@settings(max_examples=60)
@given(rngs)
def test_backbone_against_enumeration(rng):
    board = random_board(rng, most=8)
    assert (definite_cells(board, "backbone") == backbone_of(board)).all()


def test_backbone_of_boards_with_several_solutions():
    for size in (6, 9):
        rng = np.random.default_rng(size)
        for board in HARD[size][:5]:
            board = board.copy()
            board[rng.choice(np.flatnonzero(board), 2, replace=False)] = 0
            every = [np.array(one) for _, one in zip(range(400), reference.solutions(board), strict=False)]
            definite = definite_cells(board, "backbone")
            if len(every) < 400:
                same = (np.array(every) == every[0]).all(0) & (board == 0)
                assert (definite == np.where(same, every[0], 0)).all()
            assert all((one[definite > 0] == definite[definite > 0]).all() for one in every)


@settings(max_examples=40)
@given(st.sampled_from([4, 6, 9]), st.sampled_from(RULES), rngs)
def test_definite_cells_are_symmetric(size, rule, rng):
    board = opened(size, rng)
    cells, digits = reference.random_symmetry(size, rng)
    assert (definite_cells(digits[board[cells]], rule) == digits[definite_cells(board, rule)[cells]]).all()


def test_definite_cells_of_a_batch_and_errors():
    boards = HARD[9][:20]
    for rule in ("locked", "backbone"):
        batch = definite_cells(boards, rule)
        assert batch.dtype == np.uint8
        assert batch.tolist() == [definite_cells(board, rule).tolist() for board in boards]
    for group, rule in RULE_GROUPS.items():
        assert (definite_cells(boards, group) == definite_cells(boards, rule)).all()
    assert definite_cells(np.zeros((16, 16), int), "fish").shape == (16, 16)
    assert (definite_cells(boards, "backbone") > 0).sum() == (boards == 0).sum()
    refused("'guess'", lambda: definite_cells(boards, "guess"), BoardError)
    refused("cells", lambda: definite_cells(np.zeros(10, int), "locked"), BoardError)
