"""Boards with several solutions, of which any is right: sources, S1, scores and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import PromptPool, Puzzles, SudokuError, generate, score_answer
from sudoku_env.answers import check_answers, definite_rule, follow_boards
from sudoku_env.board import format_board, is_solved
from sudoku_env.errors import BoardError
from sudoku_env.kernels.ladder_state import RULES
from sudoku_env.logic import RULE_GROUPS, definite_cells
from sudoku_env.scoring import exact_score, partial_score
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.every_grid import every_grid, random_board, solutions_of

SEVERAL = "1..............."


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_of_the_ladder_assumes_that_there_is_one_solution(rule):
    """A uniqueness rule would give digits that some solutions lack."""
    found = 0
    for size, clues in ((4, 5), (6, 12), (9, 26)):
        rng = np.random.default_rng(size)
        boards = generate(60, size=size, clues=clues, seed=2).boards
        for board in boards:
            board[rng.choice(np.flatnonzero(board), 2, replace=False)] = 0
        definite, backbone = definite_cells(boards, rule), definite_cells(boards, "backbone")
        assert (definite[definite > 0] == backbone[definite > 0]).all()
        found += (definite > 0).sum()
    assert found


def test_the_rule_behind_definite_cells_is_the_one_asked_for_or_that_of_the_answers():
    assert [definite_rule(None, answers) for answers in ("one", "any")] == ["singles", "backbone"]
    assert all(definite_rule(rule, "any") == rule for rule in (*RULES, *RULE_GROUPS))
    refused("rule 'unique_rectangle' is unknown", lambda: definite_rule("unique_rectangle", "any"), BoardError)


@pytest.mark.parametrize(
    "ask",
    [
        check_answers,
        lambda answers: Puzzles.of([SEVERAL], answers),
        lambda answers: PromptPool([f"sudoku 4x4 {SEVERAL}"], answers),
        lambda answers: score_answer("", SEVERAL, answers=answers),
        lambda answers: generate(1, size=4, answers=answers, seed=0),
    ],
)
@pytest.mark.parametrize("answers", ["all", "", None, True, 1])
def test_other_answers_are_refused(answers, ask):
    refused(r"answers=.* is unknown; use one of \('one', 'any'\)", lambda: ask(answers), SudokuError)


def test_solutions_follow_their_boards_where_these_have_any():
    rng = np.random.default_rng(0)
    boards = np.array([random_board(rng) for _ in range(300)])
    before = every_grid()[rng.integers(288, size=len(boards))]
    after = before.copy()
    follow_boards(boards, after)
    for board, old, new in zip(boards, before, after, strict=True):
        every = solutions_of(board)
        if not len(every) or (every == old).all(1).any():
            assert (new == old).all()
        else:
            assert (every == new).all(1).any()


def test_puzzles_and_prompts_with_several_solutions_are_taken_on_demand():
    puzzles = Puzzles.of([SEVERAL, "." * 16, "1..4|..12|21..|.3.."], "any")
    for board, solution in zip(puzzles.boards, puzzles.solutions, strict=True):
        assert (solutions_of(board) == solution).all(1).any()
    several = 'board 0 has more than one solution; it needs one, or pass answers="any"'
    refused(several, lambda: Puzzles.of([SEVERAL]), BoardError)
    refused("board 0 has no solution; it needs one", lambda: Puzzles.of(["11" + "." * 14], "any"), BoardError)
    refused("board 0 has no blank", lambda: Puzzles.of([every_grid()[0]], "any"), BoardError)
    pool = PromptPool([f"sudoku 4x4 {SEVERAL}", "sudoku 4x4 " + "." * 16], "any")
    assert [int((board > 0).sum()) for board in pool.puzzles.boards] == [1, 0]
    refused('pass answers="any"', lambda: PromptPool([f"sudoku 4x4 {SEVERAL}"]).puzzles, BoardError)


@pytest.mark.parametrize("size", [4, 6, 9, 16])
def test_random_clues_of_random_grids(size):
    puzzles = generate(30, size=size, answers="any", seed=3)
    assert len({int((board > 0).sum()) for board in puzzles.boards}) > 2
    assert all(is_solved(solution) for solution in puzzles.solutions)
    assert (puzzles.boards[puzzles.boards > 0] == puzzles.solutions[puzzles.boards > 0]).all()
    assert (generate(3, size=size, answers="any", seed=3, first=5).boards == puzzles.boards[5:8]).all()
    assert ((generate(5, size=size, clues=3, answers="any", seed=0).boards > 0).sum(1) == 3).all()
    assert not generate(2, size=size, clues=0, answers="any", seed=0).boards.any()


@pytest.mark.parametrize("more", [{"minimal": True}, {"rule": "singles"}])
def test_what_is_about_puzzles_with_one_solution_does_not_go_with_any(more):
    refused("leave them out", lambda: generate(1, size=4, answers="any", seed=0, **more), BoardError)
    refused(r"within 0\.\.16", lambda: generate(1, size=4, clues=17, answers="any", seed=0), BoardError)


@settings(max_examples=150)
@given(st.integers(0, 2**32).map(np.random.default_rng))
def test_an_answer_is_exact_if_it_is_any_solution_and_only_then(rng):
    grid = every_grid()[rng.integers(288)]
    puzzle = np.where(rng.permutation(16) < rng.integers(16), grid, 0)
    every = solutions_of(puzzle)
    answer = every[rng.integers(len(every))].copy()
    if rng.random() < 0.7:
        answer[rng.integers(16, size=2)] = rng.integers(1, 5, size=2)
    right = bool((every == answer).all(1).any())
    score = score_answer(format_board(answer), puzzle, answers="any")
    assert score.exact == exact_score(format_board(answer), puzzle, answers="any") == float(right)
    assert (score.per_cell == score.givens == 1.0) == right
    kept = (answer == puzzle)[puzzle > 0]
    partial = partial_score(format_board(answer), puzzle, answers="any")
    assert partial == (score.per_cell if kept.all() else 0.0)


def test_shares_of_an_answer_to_a_puzzle_with_several_solutions_by_hand():
    answer = "1234|3412|2143|4312"  # 1 and 2 of the last row stand below 1 of row 3 and 2 of row 1 and 2
    score = score_answer(answer.replace("|", "\n"), SEVERAL, answers="any")
    assert (score.exact, score.format, score.givens) == (0.0, 1.0, 1.0)
    assert 0 < score.per_cell < 1
    assert partial_score("2...\n....\n....\n....", SEVERAL, answers="any") == 0.0  # the given is changed
    assert partial_score("12..\n....\n....\n....", SEVERAL, answers="any") == 1 / 15


def test_scores_without_exactly_one_solution_say_what_to_pass():
    refused(r'more than one solution; .*pass answers="any"', lambda: score_answer("", SEVERAL), BoardError)
    refused("no solution", lambda: score_answer("", "11" + "." * 14, answers="any"), BoardError)
    refused("leave it out", lambda: score_answer("", SEVERAL, every_grid()[0], answers="any"), BoardError)
