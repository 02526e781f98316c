import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env.generator import generate
from sudoku_env.kernels.planes import DEAD, SOLVED, STATE_WORDS, STUCK, propagate, read_board, word_of, write_board
from tests.sudoku_env.helpers import sudoku_reference as reference

PUZZLES = generate(40, size=9, clues=(23, 30), rule=None, seed=3)
UNITS = [set(unit) for unit in reference.units(9)]


def narrowed(board):
    """Candidates by naked singles, hidden singles and locked candidates with sets; None at a contradiction."""
    options = [{int(digit)} if digit else set(range(1, 10)) for digit in board]
    while True:
        before = sum(map(len, options))
        for cell, option in enumerate(options):
            if len(option) == 1:
                for other in set().union(*(unit for unit in UNITS if cell in unit)) - {cell}:
                    options[other] -= option
        for digit in range(1, 10):
            for unit in UNITS:
                places = {cell for cell in unit if digit in options[cell]}
                if not places:
                    return None
                if len(places) == 1:
                    options[places.pop()] &= {digit}
                    continue
                for other in UNITS:
                    if other is not unit and places <= other:
                        for cell in other - places:
                            options[cell].discard(digit)
        if not all(options):
            return None
        if sum(map(len, options)) == before:
            return options


def options_of(state):
    def may_hold(cell, digit):
        return int(state[word_of.py_func(cell // 27, digit - 1)]) >> cell % 27 & 1

    return [{digit for digit in range(1, 10) if may_hold(cell, digit)} for cell in range(81)]


@settings(max_examples=60)
@given(st.integers(0, 39), st.integers(0, 2**32), st.integers(0, 12), st.integers(0, 1))
def test_propagation_is_singles_and_locked_candidates(which, seed, more, wrong):
    rng = np.random.default_rng(seed)
    board = PUZZLES.boards[which].copy()
    board[rng.choice(81, more)] = PUZZLES.solutions[which][rng.choice(81, 1)] if wrong else 0
    state = np.zeros(STATE_WORDS, np.uint32)
    read_board(board, state)
    status = propagate(state, 0)
    expected = narrowed(board)
    if expected is None or status == DEAD:
        assert expected is None and status == DEAD
        return
    assert options_of(state) == expected
    assert status == (SOLVED if all(len(option) == 1 for option in expected) else STUCK)
    if status == SOLVED:
        solved = np.zeros(81, np.uint8)
        write_board(state, 0, solved)
        assert [{digit} for digit in solved.tolist()] == expected


def test_a_solved_board_is_read_and_written_back():
    state, board = np.zeros(STATE_WORDS, np.uint32), np.zeros(81, np.uint8)
    for solution in PUZZLES.solutions:
        read_board(solution, state)
        assert propagate(state, 0) == SOLVED
        write_board(state, 0, board)
        assert (board == solution).all()
