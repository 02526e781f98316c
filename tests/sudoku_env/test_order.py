import math
from functools import cache
from itertools import permutations

import numpy as np
import pytest

from sudoku_env import SudokuError, explain, generate, random_order_floor, solve, solve_batch
from sudoku_env.logic import RULE_GROUPS, definite_cells, definite_digits
from sudoku_env.order import TIERS, easiest_tier, ladder_rounds, ladder_steps, random_order_tiers, tier_shares
from tests.helpers.refusals import refused

HARD = np.stack([generate(1, size=6, clues=(8, 10), seed=seed).boards[0] for seed in range(6)])
SOLUTIONS = solve_batch(HARD)[0]
EASY = generate(5, size=6, clues=(14, 18), rule="singles", seed=2).boards


def exact_floor(board, solution):
    """Mean over all orders of the share of decisions on definite cells, by enumeration."""
    blanks = np.flatnonzero(board == 0).tolist()

    @cache
    def definite(filled):
        """The definite cells where some blanks are filled; many orders come by each state."""
        current = board.copy()
        current[list(filled)] = solution[list(filled)]
        return frozenset(np.flatnonzero(definite_digits(current)).tolist())

    shares = []
    for order in permutations(blanks):
        steps = (order[step] in definite(frozenset(order[:step])) for step in range(len(order)))
        shares.append(sum(steps) / len(blanks))
    return float(np.mean(shares))


def test_agrees_with_enumeration_of_all_orders():
    made = generate(200, size=4, clues=10, rule="singles", seed=3)
    exact = [exact_floor(board, solution) for board, solution in zip(made.boards, made.solutions, strict=True)]
    hardest = int(np.argmin(exact))
    assert exact[hardest] < 0.98
    boards, solutions = (np.tile(each[hardest], (2000, 1)) for each in (made.boards, made.solutions))
    assert random_order_floor(boards, solutions, seed=0) == pytest.approx(exact[hardest], abs=0.01)


def test_single_blank_is_always_definite():
    made = generate(5, size=6, clues=35, seed=1)
    assert random_order_floor(made.boards, made.solutions, seed=0) == 1.0


def test_seed_decides_and_boards_are_left_alone():
    made = generate(20, size=6, clues=(14, 18), rule="singles", seed=1)
    before = made.boards.copy()
    values = [random_order_floor(made.boards, made.solutions, seed=seed) for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]
    assert (made.boards == before).all()


@pytest.mark.parametrize("full", [True, False])
def test_nothing_to_decide_raises(full):
    made = generate(2, size=4, clues=8, rule="singles", seed=1)
    boards = made.solutions if full else made.boards[:, :9]
    refused("blanks", lambda: random_order_floor(boards, made.solutions, seed=0), SudokuError)


def test_easiest_tier_is_the_first_group_that_makes_the_cell_definite() -> None:
    rows, cells = np.nonzero(HARD == 0)
    found = easiest_tier(HARD[rows], cells)
    for tier, row, cell in zip(found, rows, cells, strict=True):
        definite = [bool(definite_cells(HARD[row], rule)[cell]) for rule in RULE_GROUPS]
        assert tier == (definite.index(True) if any(definite) else len(RULE_GROUPS))
    assert len(np.unique(found)) >= 3
    assert TIERS[0] == "singles" and TIERS[-1] == "beyond" and len(TIERS) == len(RULE_GROUPS) + 1


def test_tier_shares_by_hand() -> None:
    shares = tier_shares(np.array([0, 0, 1, len(TIERS) - 1]))
    assert shares["singles"] == 0.5 and shares["locked"] == shares["beyond"] == 0.25
    assert sum(shares.values()) == 1.0
    assert all(math.isnan(share) for share in tier_shares(np.zeros(0, np.int64)).values())


def test_floor_of_singles_is_the_random_order_floor() -> None:
    for boards in (EASY, HARD):
        solutions = solve_batch(boards)[0]
        floor = random_order_floor(boards, solutions, seed=4)
        assert tier_shares(random_order_tiers(boards, solutions, seed=4))["singles"] == pytest.approx(floor)


def test_floor_of_all_cells_at_once_is_that_of_the_puzzle() -> None:
    at_once = np.where(HARD == 0, 3.0, np.nan)
    tiers = random_order_tiers(HARD, SOLUTIONS, cell_steps=at_once)
    rows, cells = np.nonzero(HARD == 0)
    np.testing.assert_array_equal(tiers, easiest_tier(HARD[rows], cells))


def test_floor_of_the_first_cells_against_enumeration() -> None:
    """The first cell of a board is any blank; over many seeds each is as likely."""
    one, none = np.ones(len(HARD), np.int64), np.zeros(len(HARD), np.int64)
    drawn = [random_order_tiers(HARD, SOLUTIONS, live_cells=one, seed=seed) for seed in range(400)]
    expected = [(definite_digits(board)[board == 0] > 0).mean() for board in HARD]
    np.testing.assert_allclose((np.array(drawn) == 0).mean(0), expected, atol=0.1)
    assert len(np.unique(expected)) > 1 and len(random_order_tiers(HARD, SOLUTIONS, live_cells=none)) == 0
    full = random_order_tiers(HARD, SOLUTIONS, live_cells=(HARD == 0).sum(1), seed=1)
    np.testing.assert_array_equal(full, random_order_tiers(HARD, SOLUTIONS, seed=1))


def test_floor_with_the_steps_of_a_decode_against_loops() -> None:
    """Cells filled one, then three, one, three …: the random order of one at a time, judged at the start of a step."""
    steps = np.full(HARD.shape, np.nan)
    for row, board in enumerate(HARD):
        blanks = np.random.default_rng(row).permutation(np.flatnonzero(board == 0))
        steps[row, blanks] = [10 + index // 4 * 2 + (index % 4 > 0) for index in range(len(blanks))]
    found = random_order_tiers(HARD, SOLUTIONS, cell_steps=steps, seed=5)
    priority = np.random.default_rng(5).random(HARD.shape)
    expected = []
    for row, board in enumerate(HARD):
        order = sorted(np.flatnonzero(board == 0), key=lambda cell: -priority[row, cell])
        tier = {}
        for index, cell in enumerate(order):
            first = index // 4 * 4 + (index % 4 > 0)
            state = np.where(np.isin(np.arange(36), order[:first]), SOLUTIONS[row], board)
            tier[cell] = int(easiest_tier(state[None].astype(np.uint8), np.array([cell]))[0])
        expected += [tier[cell] for cell in np.flatnonzero(board == 0)]
    assert found.tolist() == expected


def test_steps_of_the_ladder_are_those_of_explain() -> None:
    steps = ladder_steps(HARD)
    for board, row in zip(HARD, steps, strict=True):
        np.testing.assert_array_equal(np.isnan(row), board > 0)
        told = [(step.cell, index) for index, step in enumerate(explain(board, "backbone")) if step.cell is not None]
        assert [(int(cell), int(row[cell])) for cell in np.argsort(row)[: len(told)]] == told
    assert np.nanmax(steps) > (HARD == 0).sum(1).max()


def test_rounds_of_the_ladder_against_loops() -> None:
    boards = np.concatenate([EASY, HARD])
    rounds = ladder_rounds(boards)
    for board, row in zip(boards, rounds, strict=True):
        current, number = board.copy(), 0
        while (current == 0).any():
            found = (definite_cells(current, rule) for rule in (*RULE_GROUPS, "backbone"))
            definite = next(each for each in found if each.any())
            assert (row[definite > 0] == number).all()
            current, number = current + definite, number + 1
        np.testing.assert_array_equal(current, solve(board))
        np.testing.assert_array_equal(np.isnan(row), board > 0)


def test_several_solutions_leave_cells_out() -> None:
    board = solve_batch(EASY[:1])[0]
    board[0, :12] = 0
    rounds, steps = ladder_rounds(board), ladder_steps(board)
    assert np.isnan(rounds).sum() > 24
    np.testing.assert_array_equal(np.isnan(rounds), np.isnan(steps))
