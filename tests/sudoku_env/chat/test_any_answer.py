"""Sudoku in words on puzzles with several solutions, of which any is right."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import SudokuText, generate, parse_puzzle, text_rows
from sudoku_env.board import is_solved, to_string
from sudoku_env.chat.game import Game, closest_solution
from sudoku_env.errors import BoardError, SudokuError
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.every_grid import backbone_of, every_grid, random_board, solutions_of

SEVERAL = "1" + "." * 15


def begun(**arguments):
    env = SudokuText(size=4, answers="any", **arguments)
    env.reset(options={"puzzle": SEVERAL})
    return env


@settings(max_examples=100)
@given(st.integers(0, 2**32).map(np.random.default_rng))
def test_the_closest_solution_leaves_out_what_leaves_none(rng):
    board = random_board(rng, most=10)
    puzzle = np.where(board == every_grid()[rng.integers(288)], board, 0) * (rng.random(16) < 0.5)
    if not len(solutions_of(puzzle)):
        return
    found = closest_solution(puzzle.astype(np.uint8), board)
    kept = puzzle.copy()
    for cell in np.flatnonzero(board):
        tried = kept.copy()
        tried[cell] = board[cell]
        if len(solutions_of(tried)):
            kept = tried
    assert (solutions_of(kept) == found).all(1).any()
    assert (((board > 0) & (board != found)) == (board != kept)).all()


@pytest.mark.parametrize("number", [0, 3, 40])
def test_every_solution_wins(number):
    every = solutions_of([1] + [0] * 15)
    env = begun()
    for cell, digit in enumerate(every[number][1:], start=1):
        reply, reward, terminated, *_ = env.step(f"place {cell // 4 + 1} {cell % 4 + 1} {digit}")
        assert (reward, terminated) == (float(cell == 15), cell == 15)
    assert "complete and right" in reply and env.score == 1.0


def test_a_hint_names_a_right_digit_where_none_follows_and_then_only():
    env = SudokuText(size=4, answers="any", hint_cost=0.0, max_turns=100)
    text, _ = env.reset(options={"puzzle": "." * 16})
    assert "any of them is right" in text and not parse_puzzle(text, "any").any()
    while not env.over:
        backbone = backbone_of(env.info()["board"])
        reply = env.hint()
        choice = re.search(r"\(grade 9\): No digit follows: .* them row (\d), column (\d) is (\d)\.", reply)
        if choice is not None:
            assert not backbone.any()
            env.place(*map(int, choice.groups()))
        elif backbone.any():
            cell = int(np.flatnonzero(backbone)[0])
            env.place(cell // 4 + 1, cell % 4 + 1, int(backbone[cell]))
        else:
            assert "eliminated" in reply
        assert len(solutions_of(env.info()["board"]))
    assert env.over and is_solved(env.info()["board"]) and env.score == 1.0
    assert Game(np.zeros(16, np.uint8), every_grid()[0], answers="any").hint().text.startswith("No digit follows")


def test_a_hint_names_a_digit_that_leaves_no_solution():
    env = begun()
    env.reset(options={"puzzle": "12..|....|....|...."})
    env.place(2, 1, 3)
    env.place(1, 3, 4)
    assert (env.solution[[4, 2]] == [3, 4]).all() and "is wrong" not in env.hint()
    env.place(3, 4, 3)  # nothing is left for row 1, column 4
    assert not len(solutions_of(env.info()["board"]))
    assert "Hint (grade 1): 3 in row 3, column 4 is wrong; erase it." in env.hint()
    env.erase(3, 4)
    assert len(solutions_of(env.info()["board"])) and "is wrong" not in env.hint()


@pytest.mark.parametrize("reward", ["cells", "definite"])
def test_digits_are_right_if_they_leave_a_solution_and_definite_if_all_have_them(reward):
    rng = np.random.default_rng(0)
    for seed in range(20):
        env = SudokuText(size=4, answers="any", reward=reward)
        _, info = env.reset(seed=seed)
        blanks, earned = int((info["puzzle"] == 0).sum()), 0
        while not env.over:
            board = env.info()["board"]
            every = solutions_of(board)
            cell = rng.choice(np.flatnonzero(board == 0))
            digit = every[rng.integers(len(every))][cell]
            earned += reward == "cells" or bool(backbone_of(board)[cell])
            env.place(cell // 4 + 1, cell % 4 + 1, int(digit))
            assert env.score == pytest.approx(earned / blanks)
        assert env.info()["solved"]


def test_puzzles_are_dealt_by_their_seed_and_rows_are_theirs():
    env = SudokuText(size=6, answers="any")
    for row in text_rows(4, size=6, answers="any", seed=1):
        text, info = env.reset(seed=row["seed"])
        assert to_string(info["puzzle"]) == row["puzzle"] and info["clues"] == row["clues"] <= 8
        assert row["prompt"][0]["content"] == text
        assert (generate(1, size=6, answers="any", seed=row["seed"]).boards[0] == info["puzzle"]).all()
    assert (SudokuText(size=4, answers="any", clues=2).reset(seed=0)[1]["puzzle"] > 0).sum() == 2


def test_a_puzzle_with_several_solutions_needs_to_be_told():
    refused('pass answers="any"', lambda: SudokuText(size=4).reset(options={"puzzle": SEVERAL}), BoardError)
    refused("answers='all' is unknown", lambda: SudokuText(size=4, answers="all"), SudokuError)
    refused("leave them out", lambda: text_rows(1, size=4, rule="singles", answers="any"), BoardError)
    assert SudokuText(size=4, answers="any", rule="singles").rule == "singles"
