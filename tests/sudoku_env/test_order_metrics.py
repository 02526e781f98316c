from itertools import permutations

import numpy as np
import pytest

from sudoku_env.errors import SudokuError
from sudoku_env.generator import generate
from sudoku_env.logic import forced_digits
from sudoku_env.metrics import random_order_floor


def exact_floor(board, solution):
    """Mean over all orders of the share of decisions on forced cells, by enumeration."""
    blanks = np.flatnonzero(board == 0)
    shares = []
    for order in permutations(blanks):
        current, forced = board.copy(), 0
        for cell in order:
            forced += int(forced_digits(current)[cell] > 0)
            current[cell] = solution[cell]
        shares.append(forced / len(blanks))
    return float(np.mean(shares))


def test_agrees_with_enumeration_of_all_orders():
    made = generate(200, size=4, clues=10, rule="singles", seed=3)
    exact = [exact_floor(board, solution) for board, solution in zip(made.boards, made.solutions, strict=True)]
    hardest = int(np.argmin(exact))
    assert exact[hardest] < 0.98
    board, solution = made.boards[hardest : hardest + 1], made.solutions[hardest : hardest + 1]
    assert random_order_floor(board, solution, seed=0, orders=2000) == pytest.approx(exact[hardest], abs=0.01)


def test_single_blank_is_always_forced():
    made = generate(5, size=6, clues=35, seed=1)
    assert random_order_floor(made.boards, made.solutions, seed=0) == 1.0


def test_seed_decides():
    made = generate(20, size=6, clues=(14, 18), rule="singles", seed=1)
    values = [random_order_floor(made.boards, made.solutions, seed=seed) for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]


def test_boards_are_left_alone():
    made = generate(5, size=6, clues=18, rule="singles", seed=1)
    before = made.boards.copy()
    random_order_floor(made.boards, made.solutions, seed=0)
    assert (made.boards == before).all()


@pytest.mark.parametrize("full", [True, False])
def test_nothing_to_decide_raises(full):
    made = generate(2, size=4, clues=8, rule="singles", seed=1)
    boards = made.solutions if full else made.boards[:, :9]
    with pytest.raises(SudokuError, match="blanks"):
        random_order_floor(boards, made.solutions, seed=0)
