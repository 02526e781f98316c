import re
from itertools import product

import numpy as np
import pytest

from sudoku_env import generate, rate, solve
from sudoku_env.board import as_board
from sudoku_env.errors import BoardError
from sudoku_env.explanation import Step, describe_step, explain, unit_name
from sudoku_env.kernels.ladder import eliminate
from sudoku_env.kernels.ladder_state import RULES, find_places, ladder_table, new_work
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers import ladder_examples, ladder_reference
from tests.sudoku_env.helpers import sudoku_reference as reference
from tests.sudoku_env.helpers.ladder_examples import exchange, set_candidates
from tests.sudoku_env.helpers.sudoku_reference import numbers_in


def test_words_of_singles():
    # 1 2 . .
    # . . . .
    # . . 3 .
    # . . . .
    assert [str(step) for step in explain("12........3.....")] == [
        "Naked single: row 1, column 3 can only be 4 (row 1 holds 1 and 2; column 3 holds 3), so row 1, column 3 is 4.",
        "Naked single: row 1, column 4 can only be 3 (row 1 holds 1, 2 and 4), so row 1, column 4 is 3.",
    ]
    # On a 6×6 board the ones in row 2, column 2 and column 3 leave row 1 one place.
    first, *_ = explain("." * 9 + "1" + "..." + "1" + "." * 12 + "1" + "." * 9)
    assert first.text == "Hidden single: in row 1 the digit 1 fits only in column 1, so row 1, column 1 is 1."
    assert (first.rule, first.cell, first.digit, first.units) == ("hidden_single", 0, 1, ("row 1",))


@pytest.mark.parametrize("rule", RULES[2:-1])
def test_words_of_patterns(rule):
    missing, expected, sentence = ladder_examples.EXAMPLES[rule]
    table, work = ladder_table(9), new_work(9)
    set_candidates(work, [set(range(1, 10)) - missing.get(cell, set()) for cell in range(81)])
    find_places(table, work)
    assert eliminate(table, work, RULES.index(rule))
    step = describe_step(RULES.index(rule), work, 9)
    assert str(step) == sentence
    assert step.eliminated == tuple(sorted(expected)) and step.cell is step.digit is None


def test_words_of_the_backbone():
    step = next(step for step in explain(exchange("diabolical")[1], "backbone") if step.rule == "backbone")
    name, digit = cell_name(step.cell), step.digit
    assert str(step) == f"Backbone: {name} holds {digit} in every solution, as a search shows, so {name} is {digit}."


def cell_name(cell):
    return f"row {cell // 9 + 1}, column {cell % 9 + 1}"


def told(text):
    """What a sentence says is eliminated, read back as (cell, digit) pairs of a 9×9 board."""
    conclusion = re.sub(r", which.*", "", text.rstrip(".").rsplit(", so ", 1)[1])
    pairs = set()
    for part in conclusion.split("; "):
        digits, cells = re.split(r" (?:is |are )?(?:eliminated )?from ", part)
        for rows, columns in re.findall(r"rows? ([\d, and]+?), columns? ([\d, and]+)", cells):
            pairs |= {(9 * r + c - 10, d) for r, c, d in product(*map(numbers_in, (rows, columns, digits)))}
    return pairs


def carry_out(state, step):
    if step.cell is None:
        state.eliminate(step.eliminated)
    else:
        state.write(step.cell, step.digit)


def follow(board, steps):
    """Carry out steps on candidate sets of their own, checking each against the reference; the final board."""
    board = board.tolist()
    state = ladder_reference.State(reference.candidates(board))
    for step in steps:
        if step.cell is None:
            assert step.eliminated
            assert set(step.eliminated) <= ladder_reference.ELIMINATIONS[step.rule](state)
        else:
            assert board[step.cell] == 0
            if step.rule != "backbone":
                assert (step.cell, step.digit) in ladder_reference.singles(state, step.rule == "hidden_single")
            board[step.cell] = step.digit
        carry_out(state, step)
    return np.array(board)


@pytest.mark.parametrize("tier", ["easy", "medium", "hard", "diabolical"])
def test_steps_can_be_followed(tier):
    for board in exchange(tier)[::10]:
        steps = explain(board, "backbone")
        assert (follow(board, steps) == solve(board)).all()
        rating = rate(board)
        assert rating.steps == len(steps)
        assert rating.uses == {rule: n for rule in RULES if (n := sum(step.rule == rule for step in steps))}
        for step in steps:
            assert step.text.startswith(step.rule.replace("_", " ").capitalize()[:1]) and step.text.endswith(".")
            if step.cell is None:
                assert told(step.text) == set(step.eliminated)
            else:
                assert step.text.endswith(f"so {cell_name(step.cell)} is {step.digit}.")


def test_always_the_easiest_rule():
    for board in exchange("hard")[::16]:
        state = ladder_reference.State(reference.candidates(board.tolist()))
        for step in explain(board):
            level = RULES.index(step.rule)
            assert level == 0 or not ladder_reference.singles(state, level > 1)
            assert not any(ladder_reference.ELIMINATIONS[rule](state) for rule in RULES[2:level])
            carry_out(state, step)


def test_reasons_of_naked_singles_are_true():
    for board in exchange("hard")[::10]:
        filled, eliminated = board.copy(), set()
        for step in explain(board):
            if step.rule == "naked_single":
                accounted = {step.digit}
                for reason in step.text.split("(")[1].split(")")[0].split("; "):
                    if reason.endswith("eliminated before"):
                        digits = set(numbers_in(reason))
                        assert all((step.cell, digit) in eliminated for digit in digits)
                    else:
                        unit, held = reason.split(" holds ")
                        digits = set(numbers_in(held))
                        assert unit in step.units and digits <= {*filled[reference.unit_called(unit, 9)].tolist()}
                    accounted |= digits
                assert accounted == set(range(1, 10))
            eliminated |= set(step.eliminated)
            if step.cell is not None:
                filled[step.cell] = step.digit


def test_stops_where_the_rules_do():
    board = exchange("diabolical")[0]
    assert rate(board).rule == "backbone"
    steps = explain(board)
    assert steps and all(step.rule != "backbone" for step in steps)
    assert (follow(board, steps) == 0).any()
    assert explain([0] * 81) == explain([0] * 36, "backbone") == []
    assert explain(solve(board)) == []


@pytest.mark.parametrize("size", [6, 16])
def test_other_sizes(size):
    puzzles = generate(2, size=size, clues={6: 13, 16: 130}[size], rule="singles", seed=4)
    for board, solution in zip(puzzles.boards, puzzles.solutions, strict=True):
        assert (follow(board, explain(board)) == solution).all()


def test_boards_without_a_solution():
    # Row 1 needs a 4, which its last cell cannot be: the column has one.
    board = as_board("123............4")
    assert explain(board) == explain(board, "backbone") == []
    rng = np.random.default_rng(0)
    puzzles = generate(20, size=6, clues=13, rule="singles", seed=4)
    for puzzle, solution in zip(puzzles.boards, puzzles.solutions, strict=True):
        wrong = puzzle.copy()
        cell = rng.choice(np.flatnonzero(puzzle == 0))
        options = sorted(reference.candidates(puzzle.tolist())[cell] - {int(solution[cell])})
        if options:
            wrong[cell] = options[0]
            assert (follow(wrong, explain(wrong, "backbone")) == 0).any()


def test_names_and_errors():
    assert [unit_name(unit, 9) for unit in (0, 11, 26)] == ["row 1", "column 3", "box 9"]
    step = explain("12........3.....")[0]
    assert isinstance(step, Step) and step == explain("12........3.....")[0] and hash(step)
    refused("both hold 1", lambda: explain([1, 1] + [0] * 14), BoardError)
    refused("'guess'", lambda: explain([0] * 81, "guess"), BoardError)
