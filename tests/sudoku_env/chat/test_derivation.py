import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import definite_cells, generate, solve
from sudoku_env.board import as_board, parse_board
from sudoku_env.chat.derivation import derive, derive_with_fault
from sudoku_env.errors import BoardError, SudokuError
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers import sudoku_reference as reference
from tests.sudoku_env.helpers.sudoku_reference import numbers_in, unit_called

PUZZLE = "1..4|..12|21..|.3.."
CLUES = {4: (4, 12), 6: (10, 30)}


def puzzle(size, seed, rule="singles"):
    return generate(1, size=size, clues=CLUES[size], rule=rule, seed=seed, attempts=10_000).boards[0]


def read_step(text, board):
    """A step's cell, digit and false claims, judged by its words alone on a board; the claims as (unit, digit)."""
    size = reference.size(board)
    reason, conclusion = text.rstrip(".").rsplit(", so row ", 1)
    row, column, digit = numbers_in(conclusion)
    cell = (row - 1) * size + column - 1
    assert board[cell] == 0
    false = []
    if text.startswith("Hidden single: "):
        hidden = r"Hidden single: in (\w+ \d+) the digit (\d+) fits only in (.+)"
        unit, said, place = re.fullmatch(hidden, reason).groups()
        assert int(said) == digit
        expected = {"row": [column], "column": [row], "box": [row, column]}
        assert numbers_in(place) == expected[unit.split()[0]]
        options = reference.candidates(board)
        if [one for one in unit_called(unit, size) if digit in options[one]] != [cell]:
            false.append((unit, digit))
    else:
        assert reason.startswith(f"Naked single: row {row}, column {column} can only be {digit} (")
        accounted = {digit}
        for claim in reason[reason.index("(") + 1 : -1].split("; "):
            unit, held = claim.split(" holds ")
            cells, digits = unit_called(unit, size), numbers_in(held)
            assert cell in cells
            false += [(unit, said) for said in digits if said not in {board[one] for one in cells}]
            accounted |= {*digits}
        assert accounted == set(range(1, size + 1))
    return cell, digit, false


@settings(max_examples=40)
@given(size=st.sampled_from([4, 6]), seed=st.integers(0, 2**32))
def test_every_step_of_a_sound_derivation_is_definite(size, seed):
    board = puzzle(size, seed)
    derivation = derive(board)
    assert derivation.fault is None and (derivation.grid == solve(board)).all()
    now = board.copy()
    for text in str(derivation).splitlines():
        cell, digit, false = read_step(text, now.tolist())
        assert definite_cells(now)[cell] == digit and not false
        now[cell] = digit
    assert (now == derivation.grid).all()


@settings(max_examples=8)
@given(seed=st.integers(0, 2**32))
def test_steps_of_a_harder_derivation_hold_in_every_solution(seed):
    board = generate(1, size=6, rule="patterns", exact=True, seed=seed, attempts=100_000).boards[0]
    derivation = derive(board)
    assert any(step.eliminated for step in derivation.steps)
    now = board.copy()
    for step in derivation.steps:
        backbone = definite_cells(now, "backbone")
        assert all(backbone[cell] != digit for cell, digit in step.eliminated)
        if step.cell is not None:
            assert backbone[step.cell] == step.digit
            now[step.cell] = step.digit
    assert (now == derivation.grid).all() and now.all()
    faulty = derive_with_fault(board, np.random.default_rng(seed))
    assert faulty.steps[: faulty.fault] == derivation.steps[: faulty.fault]
    assert faulty.grid.all() and (faulty.grid != derivation.grid).any()


@settings(max_examples=80)
@given(size=st.sampled_from([4, 6]), seed=st.integers(0, 2**32))
def test_a_faulty_derivation_holds_one_false_claim_and_ends_wrong(size, seed):
    board = puzzle(size, seed)
    sound, faulty = derive(board), derive_with_fault(board, np.random.default_rng(seed))
    assert len(faulty.steps) == len(sound.steps)
    assert faulty.steps[: faulty.fault] == sound.steps[: faulty.fault]
    now = board.copy()
    for place, text in enumerate(str(faulty).splitlines()):
        cell, digit, false = read_step(text, now.tolist())
        assert len(false) == (place == faulty.fault)
        if false:
            # The one false claim is that a unit holds the cell's right digit; then a wrong one is written.
            assert false[0][1] == sound.grid[cell] != digit
        now[cell] = digit
    assert (now == faulty.grid).all() and now.all()
    assert (faulty.grid[board > 0] == board[board > 0]).all() and (faulty.grid != sound.grid).any()


def test_faults_are_seeded_and_fall_everywhere():
    board = parse_board(PUZZLE)
    drawn, again = ([derive_with_fault(board, np.random.default_rng(seed)) for seed in range(60)] for _ in range(2))
    assert list(map(str, drawn)) == list(map(str, again))
    assert {faulty.fault for faulty in drawn} == set(range(len(derive(board).steps)))
    assert len(set(map(str, drawn))) > 30


def test_a_fault_in_the_last_blank_clashes():
    # The blank is a 1; each of its units holds 2, 3 and 4, one of which is misread as the 1.
    board = as_board("123434122143432.")
    words = set()
    for seed in range(30):
        (step,) = derive_with_fault(board, np.random.default_rng(seed)).steps
        assert step.cell == 15 and step.digit in (2, 3, 4)
        words.add(step.text)
    assert "Naked single: row 4, column 4 can only be 3 (row 4 holds 1, 2 and 4), so row 4, column 4 is 3." in words


def test_faults_with_and_without_a_clash():
    board = puzzle(6, 11)
    clashes = set()
    for seed in range(30):
        faulty = derive_with_fault(board, np.random.default_rng(seed))
        now = board.copy()
        for step in faulty.steps[: faulty.fault]:
            now[step.cell] = step.digit
        wrong = faulty.steps[faulty.fault]
        right = int(derive(board).grid[wrong.cell])
        options = reference.candidates(now.tolist())[wrong.cell]
        clash = wrong.digit not in options
        assert options == ({right} if clash else {right, wrong.digit})
        clashes.add(clash)
    assert clashes == {True, False}


def test_boards_that_give_no_derivation():
    rng = np.random.default_rng(0)
    refused("leave 16 cells blank", lambda: derive([0] * 16), SudokuError)
    refused("leave 16 cells blank", lambda: derive_with_fault([0] * 16, rng), SudokuError)
    refused("no blank to place", lambda: derive_with_fault("1234341221434321", rng), SudokuError)
    refused("both hold 1", lambda: derive([1, 1] + [0] * 14), BoardError)
    assert derive("1234341221434321").steps == ()
