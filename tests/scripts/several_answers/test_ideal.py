"""Decodes by the exact marginals: against enumerated completions and against the exact ceilings of 4×4."""

from itertools import pairwise
from math import factorial

import numpy as np
import pytest

from scripts.several_answers.exact import ceilings
from scripts.several_answers.ideal import TOKENS, Completions, Order, grids_by_first_row, passes, position_scores
from sudoku_env.board import geometry, is_solved
from sudoku_env.kernels.grids import fill_all
from sudoku_env.solver import count_solutions
from tests.helpers.drawn import near_share


def test_grids_with_a_first_row_are_all_of_them():
    for size, of_all in ((4, 288), (6, 28_200_960)):
        grids = grids_by_first_row(size)
        assert len(grids) * factorial(size) == of_all and len(np.unique(grids, axis=0)) == len(grids)
        assert all(is_solved(grid) for grid in grids[::1000])


@pytest.mark.parametrize("clues", [0, 1, 5, 9, 14])
def test_counts_are_those_of_all_completions(clues):
    """6×6 from nine clues on by the solver's enumeration, 4×4 by that of all grids."""
    size = 4 if clues < 9 else 6
    rng = np.random.default_rng(clues)
    grid = rng.permutation(size)[grids_by_first_row(size)[-1] - 1] + 1
    given = rng.permutation(size * size)[:clues]
    board = np.zeros(size * size, dtype=np.uint8)
    board[given] = grid[given]
    found = Completions.of_the_empty_board(size)
    for cell in given:
        found = found.written(int(cell), int(board[cell]))
    every = np.zeros((count_solutions(board, 10**6), size * size), dtype=np.uint8)
    fill_all(board, geometry(size).units_of, np.empty(3 * size, dtype=np.int64), every)
    unused = size - len(set(board[given].tolist()))
    assert len(found) * factorial(unused) == len(every) > 0
    expected = (every[:, :, None] == np.arange(1, size + 1)).sum(0)
    counts = found.counts()
    assert np.array_equal(counts * len(every), expected * counts.sum(1, keepdims=True))


def test_a_digit_that_clashes_leaves_no_completion():
    found = Completions.of_the_empty_board(6).written(0, 3)
    assert len(found.written(1, 3)) == 0 and len(found.written(1, 4)) == len(found)


def test_scores_by_hand():
    counts = np.array([[6, 3, 0, 0], [8, 1, 0, 0], [9, 0, 0, 0], [4, 2, 2, 1], [3, 3, 2, 1]])
    assert position_scores(counts, Order("random")).tolist() == [0] * 5
    assert position_scores(counts, Order("margin")).tolist() == [2, 8, np.inf, 2, 1]
    assert position_scores(counts, Order("probability")).tolist() == [6, 8, 9, 4, 3]
    assert position_scores(counts, Order("margin", ties="left")).tolist() == [-2, -1, 0, -3, -4]


@pytest.mark.parametrize(
    ("order", "cells"),
    [(Order("random"), 4), (Order("margin"), 2), (Order("margin", "left"), 2), (Order("probability"), 3)],
    ids=str,
)
def test_decodes_end_validly_as_often_as_the_exact_ceiling_says(order, cells):
    board, decodes = np.array([0, 0, 1, *[0] * 13], dtype=np.uint8), 300
    for way, share in enumerate(ceilings(order, cells).of(board)):
        rng = np.random.default_rng(7)
        ends = [list(passes(board, order, cells, way, rng))[-1] for _ in range(decodes)]
        assert all((len(found) > 0) == is_solved(end) for end, found in ends)
        assert near_share(sum(len(found) > 0 for _, found in ends), decodes, share)


def test_a_pass_fills_so_many_cells():
    rng, sampled = np.random.default_rng(0), TOKENS.index("sampled")
    states = [board for board, _ in passes(np.zeros(36, dtype=np.uint8), Order("margin"), 4, sampled, rng)]
    for before, after in pairwise(states):
        filled = np.flatnonzero(before != after)
        assert len(filled) == 4 and not before[filled].any()
