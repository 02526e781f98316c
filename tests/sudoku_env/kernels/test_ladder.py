"""The rules of the ladder as kernels: by hand, against the slow reference, and sound."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sudoku_env import generate, solve_batch
from sudoku_env.kernels.ladder import apply_step, eliminate, find_pattern, grade, next_single
from sudoku_env.kernels.ladder_state import BACKBONE, BLANKS, FIRST, RULES, find_places, ladder_table, load, new_work
from sudoku_env.kernels.search_state import LEFT, new_search
from tests.sudoku_env.helpers import ladder_examples, ladder_reference
from tests.sudoku_env.helpers.ladder_examples import exchange, set_candidates

PATTERNS = RULES[2:-1]
rngs = st.integers(0, 2**32).map(np.random.default_rng)
PUZZLES = {
    size: generate(10, size=size, clues=clues, rule="singles", seed=5).boards
    for size, clues in [(4, 5), (6, 13), (16, 130)]
}
PUZZLES[9] = np.concatenate([exchange("hard"), exchange("diabolical")])
SOLUTIONS = {size: solve_batch(boards)[0] for size, boards in PUZZLES.items()}


def search_without_end(size):
    search = new_search(size)
    search.state[LEFT] = 10**9
    return search


def easiest_rule(table, work, search):
    """The rule whose step is found, below 0 for none."""
    rule = next_single(table, work, BACKBONE)
    return rule if rule >= 0 else find_pattern(table, work, BACKBONE, search)


def digits_of(mask):
    return {bit + 1 for bit in range(16) if (int(mask) >> bit) & 1}


def options_of(work):
    return list(map(digits_of, work.masks))


def eliminations(table, work, rule, first=False):
    work.removed[:] = 0
    find_places(table, work)
    work.state[FIRST] = first
    found = eliminate(table, work, RULES.index(rule))
    pairs = {(cell, digit) for cell, mask in enumerate(work.removed) for digit in digits_of(mask)}
    work.removed[:] = 0
    assert found == bool(pairs)
    return pairs


def check_against_reference(size, work, solution):
    table, options = ladder_table(size), options_of(work)
    for rule in PATTERNS:
        expected = ladder_reference.ELIMINATIONS[rule](ladder_reference.State(options))
        assert eliminations(table, work, rule) == expected, rule
        assert all(solution[cell] != digit for cell, digit in expected), rule
        one = eliminations(table, work, rule, first=True)
        assert one <= expected and bool(one) == bool(expected)
    assert options_of(work) == options


@pytest.mark.parametrize("rule", PATTERNS)
def test_textbook_example(rule):
    missing, expected, _ = ladder_examples.EXAMPLES[rule]
    work = new_work(9)
    set_candidates(work, [set(range(1, 10)) - missing.get(cell, set()) for cell in range(81)])
    assert eliminations(ladder_table(9), work, rule) == expected
    assert eliminations(ladder_table(9), work, rule, first=True) == expected


@settings(max_examples=60)
@given(st.sampled_from([4, 6, 9, 9, 9]), rngs)
def test_rules_in_the_middle_of_a_solution(size, rng):
    k = rng.integers(len(PUZZLES[size]))
    table, work = ladder_table(size), new_work(size)
    search = search_without_end(size)
    load(PUZZLES[size][k], table, work)
    for _ in range(rng.integers(90)):
        rule = easiest_rule(table, work, search)
        if rule >= 0:
            apply_step(table, work, rule)
    check_against_reference(size, work, SOLUTIONS[size][k])


@settings(max_examples=60)
@given(st.sampled_from([4, 6, 9, 9, 9]), st.floats(0, 0.9), rngs)
@example(16, 0.3, np.random.default_rng(0))
@example(16, 0.6, np.random.default_rng(0))
def test_rules_on_random_candidates(size, share, rng):
    """Any candidates that leave the solution, singles among them."""
    k = rng.integers(len(PUZZLES[size]))
    table, work = ladder_table(size), new_work(size)
    load(PUZZLES[size][k], table, work)
    solution = SOLUTIONS[size][k]
    kept = [
        {digit for digit in option if digit == solution[cell] or rng.random() > share}
        for cell, option in enumerate(options_of(work))
    ]
    set_candidates(work, kept)
    check_against_reference(size, work, solution)


@pytest.mark.parametrize("tier", ["easy", "medium", "hard", "diabolical"])
def test_every_step_on_real_puzzles_is_sound(tier):
    table, work = ladder_table(9), new_work(9)
    boards, search = exchange(tier), search_without_end(9)
    for board, solution in zip(boards, solve_batch(boards)[0], strict=True):
        load(board, table, work)
        own = np.int64(1) << (solution.astype(np.int64) - 1)
        while work.state[BLANKS]:
            rule = easiest_rule(table, work, search)
            assert rule >= 0 and not (work.removed & own).any()
            apply_step(table, work, rule)
            assert ((work.board == solution) | (work.masks & own != 0)).all()
        assert (work.board == solution).all()


def test_grade_leaves_the_board_alone_and_work_holds_the_result():
    table, work = ladder_table(9), new_work(9)
    board = exchange("hard")[0]
    before, search = board.copy(), search_without_end(9)
    rule = grade(board, table, BACKBONE, work, search)
    assert (board == before).all() and (work.board == solve_batch(board[None])[0][0]).all()
    assert rule == np.flatnonzero(work.uses).max() and not work.masks.any()
    uses = work.uses.copy()
    assert grade(board, table, rule - 1, work, search) == -1 and (work.board == 0).any()
    assert grade(board, table, BACKBONE, work, search) == rule and (work.uses == uses).all()
