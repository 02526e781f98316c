import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import count_solutions, generate, solve, solve_batch
from sudoku_env.board import as_board
from sudoku_env.errors import BoardError
from sudoku_env.logic import RULE_GROUPS, RULES, rule_index
from sudoku_env.rating import rate, rate_batch
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers import ladder_reference
from tests.sudoku_env.helpers import sudoku_reference as reference
from tests.sudoku_env.helpers.every_grid import random_digits
from tests.sudoku_env.helpers.ladder_examples import exchange
from tests.sudoku_env.helpers.singles import solve_by_singles

EXCHANGE = np.concatenate([exchange(tier) for tier in ("easy", "medium", "hard", "diabolical")])
SMALL = {size: generate(20, size=size, clues=clues, seed=8) for size, clues in [(4, (4, 6)), (6, (9, 12))]}
rngs = st.integers(0, 2**32).map(np.random.default_rng)


def test_by_hand():
    # Row 1 lacks one digit, so each blank of the first diagonal is a naked single.
    grid = as_board("1234341221434321")
    diagonal = np.where(np.arange(16) % 5 == 0, 0, grid)
    # Blank the rectangle of two 1s and two 2s... which has two solutions: nothing can be said.
    open_board = np.where(np.isin(np.arange(16), [0, 1, 8, 9]), 0, grid)
    assert count_solutions(open_board) == 2
    for board, *expected in (
        (diagonal, "naked_single", {"naked_single": 4}, True, 4),
        (grid, "naked_single", {}, True, 0),
        (open_board, None, {}, False, 0),
    ):
        rating = rate(board)
        assert [rating.rule, rating.uses, rating.solved, rating.steps] == expected


def test_groups_and_names():
    assert [rule_index(rule) for rule in RULES] == list(range(len(RULES)))
    assert list(RULE_GROUPS.values()) == sorted(RULE_GROUPS.values(), key=RULES.index)
    assert rule_index("singles") == 1 and rule_index("patterns") == len(RULES) - 2
    refused("'guess'", lambda: rule_index("guess"), BoardError)


@pytest.mark.parametrize("size", [4, 6])
def test_against_the_reference_on_small_boards(size):
    for board in SMALL[size].boards:
        rule = rate(board).rule
        levels = [k for k in range(len(RULES) - 1) if ladder_reference.solves(board.tolist(), RULES[: k + 1])]
        assert rule == (RULES[levels[0]] if levels else "backbone")


@pytest.mark.parametrize("k", range(2, 320, 20))
def test_against_the_reference_on_real_puzzles(k):
    """The hardest rule does not depend on the order of steps: the reference solves up to it, and not below."""
    board = EXCHANGE[k].tolist()
    hardest = rule_index(rate(board).rule)
    if hardest < len(RULES) - 1:
        assert ladder_reference.solves(board, RULES[: hardest + 1])
    if hardest > 0:
        assert not ladder_reference.solves(board, RULES[:hardest])


def test_every_unique_puzzle_is_solved_and_counted():
    hardest, uses = rate_batch(EXCHANGE)
    assert (hardest >= 0).all()
    assert all(line[rule] and not line[rule + 1 :].any() for rule, line in zip(hardest, uses, strict=True))
    placed = uses[:, [0, 1, RULES.index("backbone")]].sum(1)
    assert (placed == (EXCHANGE == 0).sum(1)).all()
    for board, rule, line in list(zip(EXCHANGE, hardest, uses, strict=True))[::16]:
        rating = rate(board)
        assert rating.rule == RULES[rule] and rating.solved and rating.steps == line.sum()
        assert [rating.uses.get(name, 0) for name in RULES] == line.tolist()


def test_ceiling():
    """With a lower ceiling nothing else changes: a board is solved exactly if its hardest rule is allowed."""
    hardest, _ = rate_batch(EXCHANGE)
    for ceiling in range(len(RULES)):
        limited, uses = rate_batch(EXCHANGE, RULES[ceiling])
        assert (limited == np.where(hardest <= ceiling, hardest, -1)).all()
        assert not uses[:, ceiling + 1 :].any()
    assert rate(EXCHANGE[-1], "singles").rule is None


def test_singles_agree_with_solve_by_singles():
    hardest, _ = rate_batch(EXCHANGE, "singles")
    assert [bool(solve_by_singles(board).all()) for board in EXCHANGE] == (hardest >= 0).tolist()


@settings(max_examples=60)
@given(st.sampled_from([4, 6, 9]), rngs)
def test_symmetry(size, rng):
    boards = EXCHANGE if size == 9 else SMALL[size].boards
    board = rng.choice(boards)
    cells, digits = reference.random_symmetry(size, rng)
    one, image = rate(board), rate(digits[board[cells]])
    assert (one.rule, one.solved) == (image.rule, image.solved)


@settings(max_examples=60)
@given(rngs)
def test_a_correct_digit_makes_no_board_harder(rng):
    board = rng.choice(EXCHANGE)
    easier = board.copy()
    shown = rng.choice(np.flatnonzero(board == 0), rng.integers(1, 6), replace=False)
    easier[shown] = solve(board)[shown]
    assert rule_index(rate(easier).rule) <= rule_index(rate(board).rule)


@settings(max_examples=60)
@given(st.sampled_from([4, 6, 9]), st.floats(0, 0.6), rngs)
def test_boards_without_a_unique_solution(size, share, rng):
    """Random digits: nearly always no solution, and never an endless loop or a wrong claim."""
    boards = random_digits(8, size, share, rng)
    hardest, _ = rate_batch(boards)
    assert ((hardest >= 0) == (solve_batch(boards, limit=2)[1] == 1)).all()


def test_several_solutions_are_never_solved():
    for size in (4, 6, 9):
        assert rate(np.zeros(size * size, int)).solved is False
    board = EXCHANGE[0].copy()
    board[np.flatnonzero(board)[:12]] = 0
    assert count_solutions(board) == 2 and rate(board).rule is None


def test_errors():
    both = "row 1, column 1 and row 1, column 2 share a unit and both hold 1"
    refused(both, lambda: rate([1, 1] + [0] * 14), BoardError)
    assert rate_batch(np.array([[1, 1] + [0] * 14]))[0].tolist() == [-1]
    refused("shape", lambda: rate_batch(np.zeros(81, int)), BoardError)
    refused("'guess'", lambda: rate(EXCHANGE[0], "guess"), BoardError)
