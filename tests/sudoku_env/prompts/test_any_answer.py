"""Prompts and pre-filled responses of puzzles with several solutions, of which any is right."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import TokenLayout, build_prompt, detect_definite, generate, judge_error, parse_puzzle, pre_fill
from sudoku_env.errors import BoardError, PuzzleParseError, SudokuError
from sudoku_env.logic import definite_cells
from sudoku_env.prompts.char_tokenizer import CharTokenizer
from sudoku_env.prompts.text import TEMPLATES
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.every_grid import backbone_of, every_grid, random_board, solutions_of

TOKENIZER = CharTokenizer()
SEVERAL = "sudoku 4x4 1..............."
LENGTH = 48


def filled(prompt, **arguments):
    return pre_fill(prompt, TOKENIZER, LENGTH, answers="any", **arguments)


def state_of(layout, board, start):
    """A state whose cells hold a board, -1 for a token that is no digit."""
    tokens = np.array([*layout.digit_ids, TOKENIZER.eos_token_id, layout.mask_id])
    state = np.array(start)
    state[layout.prompt_length + layout.cell_positions] = tokens[np.where(board > 0, board - 1, np.where(board, 4, 5))]
    return state


@pytest.mark.parametrize("size", [4, 6, 9, 16])
@pytest.mark.parametrize("template", TEMPLATES)
def test_prompts_say_that_any_solution_is_right_and_give_their_board_back(size, template):
    for board in [*generate(3, size=size, answers="any", seed=0).boards, np.zeros(size * size, np.uint8)]:
        prompt = build_prompt(board, template, answers="any")
        assert "any" in prompt.removeprefix(build_prompt(board, template))
        assert (parse_puzzle(prompt, "any") == board).all()
    assert prompt.startswith(build_prompt(board, template))
    refused("no puzzle", lambda: parse_puzzle(prompt), PuzzleParseError)
    refused("answers='some' is unknown", lambda: build_prompt(board, template, answers="some"), SudokuError)


def test_a_blank_grid_is_the_puzzle_only_where_there_is_no_other():
    blank = "\n".join(["...."] * 4)
    assert parse_puzzle(f"Solve\n1...\n....\n....\n....\n\nWrite it here:\n\n{blank}", "any").sum() == 1
    assert not parse_puzzle(f"Solve\n{blank}\n\nWrite it here:\n\n{blank}", "any").any()
    two_sizes = "this " + "." * 16 + " or this " + "." * 36
    refused("blank grids of different sizes", lambda: parse_puzzle(two_sizes, "any"), PuzzleParseError)


def test_a_puzzle_with_several_solutions_is_pre_filled_on_demand():
    refused(r'not unique: .*pass answers="any"', lambda: pre_fill(SEVERAL, TOKENIZER, LENGTH), PuzzleParseError)
    refused("no solution", lambda: filled("sudoku 4x4 123........4...."), PuzzleParseError)
    refused("answers='all' is unknown", lambda: pre_fill(SEVERAL, TOKENIZER, LENGTH, answers="all"), SudokuError)
    for prompt in (SEVERAL, "sudoku 4x4 " + "." * 16):
        one = filled(prompt)
        assert one.layout.answers == "any" and (solutions_of(one.layout.puzzle) == one.layout.solution).all(1).any()
        again = TokenLayout.from_state(one.token_ids, TOKENIZER, answers="any")
        assert again.answers == "any" and (again.solution == one.layout.solution).all()
        assert pickle.loads(pickle.dumps(one)).layout.answers == "any"
    refused("not unique", lambda: TokenLayout.from_state(filled(SEVERAL).token_ids, TOKENIZER), PuzzleParseError)
    assert pre_fill("sudoku 4x4 1..4..1221...3..", TOKENIZER, LENGTH).layout.answers == "one"


@settings(max_examples=100)
@given(st.integers(0, 2**32).map(np.random.default_rng))
def test_an_error_is_what_leaves_no_solution_and_definite_is_what_all_have(rng):
    one = filled("sudoku 4x4 " + "." * 16)
    boards = np.array([random_board(rng) for _ in range(6)]).astype(np.int64)
    boards[0, rng.integers(16)] = -1
    states = np.array([state_of(one.layout, board, one.token_ids) for board in boards])
    expected = [(board < 0).any() or not len(solutions_of(board)) for board in boards]
    assert judge_error(states, one.layout).tolist() == expected
    assert [judge_error(state.tolist(), one.layout) for state in states] == expected
    assert judge_error(states, [one.layout] * 6).tolist() == expected
    digits = boards.clip(min=0).astype(np.uint8)
    for rule, definite in (
        (None, np.array([backbone_of(board) for board in digits])),
        ("naked_single", definite_cells(digits, "naked_single")),
        ("pairs", definite_cells(digits, "pairs")),
    ):
        positions = [one.layout.cell_positions[row].tolist() for row in (definite > 0) & (boards == 0)]
        assert detect_definite(states, one.layout, rule) == positions
        assert detect_definite(states, [one.layout] * 6, rule) == positions
        assert detect_definite(states[1], one.layout, rule) == positions[1]


def test_every_grid_with_the_givens_is_right_and_no_other():
    one = filled(SEVERAL)
    swapped = every_grid()[:, [1, 0, *range(2, 16)]]
    for grids, errors in ((every_grid(), every_grid()[:, 0] != 1), (swapped, np.ones(288, bool))):
        states = np.array([state_of(one.layout, grid, one.token_ids) for grid in grids.astype(int)])
        assert (judge_error(states, one.layout) == errors).all()


def test_a_rule_can_be_asked_for_where_there_is_one_solution_too():
    one = pre_fill("sudoku 4x4 1.....3..1.....2", TOKENIZER, LENGTH)
    assert len(detect_definite(one.token_ids, one.layout, "backbone")) == 12
    assert detect_definite(one.token_ids, one.layout) == detect_definite(one.token_ids, one.layout, "singles")
    refused("rule 'luck' is unknown", lambda: detect_definite(one.token_ids, one.layout, "luck"), BoardError)
