"""Exact ceilings of 4×4: by hand, against an enumeration of all decodes in fractions, and by what must hold."""

from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest

from scripts.several_answers.exact import ceilings
from scripts.several_answers.ideal import TOKENS, Order
from sudoku_env.board import geometry
from sudoku_env.solver import count_solutions
from sudoku_env.symmetries import symmetric_images
from tests.helpers.drawn import first_with

TWO_ANSWERS = "..343412..434321"
"""Columns 1 and 2 of rows 1 and 3 hold 1 2 and 2 1, or the other way round: every marginal there is one half."""
PEERS = [set(map(int, line)) for line in geometry(4).peers]
ORDERS = [Order(score, ties) for score in ("random", "margin", "probability") for ties in ("random", "left")]


@pytest.mark.parametrize(("score", "ties"), [("random", "random"), ("margin", "left")])
@pytest.mark.parametrize(
    ("cells", "valid"),
    [(2, 1 / 2), (3, 1 / 4), (16, 1 / 8)],  # k of the four cells agree with the 2 completions in 2 of 2^k ways
)
def test_a_board_with_two_completions_by_hand(score, ties, cells, valid):
    assert ceilings(Order(score, ties), cells).of(TWO_ANSWERS) == pytest.approx([valid, valid])


def test_sixteen_cells_at_once_are_one_of_the_288_grids_by_chance():
    assert ceilings(Order("margin"), 16).of("." * 16) == pytest.approx([288 / 4**16] * 2, rel=1e-9)


def test_one_cell_a_pass_never_fails():
    for order in (Order("random"), Order("probability", "left")):
        assert ceilings(order, 1).valid == pytest.approx(1)


@cache
def completions(board):
    """All completions of a board, cell by cell."""
    if 0 not in board:
        return (board,)
    cell = board.index(0)
    digits = set(range(1, 5)) - {board[peer] for peer in PEERS[cell]}
    return tuple(full for digit in digits for full in completions((*board[:cell], digit, *board[cell + 1 :])))


def brute_force(board, order, cells, tokens):
    """The probability of a valid grid: every set of cells, every digit in each, valid or not."""

    def marginals(now):
        grids = completions(now)
        return {
            cell: {d: Fraction(sum(grid[cell] == d for grid in grids), len(grids)) for d in range(1, 5)}
            for cell in range(16)
            if not now[cell]
        }

    def score(cell, marginal):
        second, first = sorted(marginal.values())[-2:]
        value = {"random": 0, "probability": first, "margin": first / second if second else float("inf")}[order.score]
        return value, (-cell if order.ties == "left" else 0)

    def choices(found, chosen=()):
        """Pairs of a sequence of cells and its probability."""
        is_open = [cell for cell in found if cell not in chosen]
        if len(chosen) == cells or not is_open:
            yield chosen, Fraction(1)
            return
        best = max(score(cell, found[cell]) for cell in is_open)
        tied = [cell for cell in is_open if score(cell, found[cell]) == best]
        for cell in tied:
            yield from ((rest, share / len(tied)) for rest, share in choices(found, (*chosen, cell)))

    def digits(marginal):
        if tokens == "sampled":
            return marginal
        best = [d for d in marginal if marginal[d] == max(marginal.values())]
        return {d: Fraction(d in best, len(best)) for d in marginal}

    @cache
    def valid(now):
        if 0 not in now or not completions(now):
            return Fraction(bool(completions(now)) and is_right(now))
        found, total = marginals(now), Fraction(0)
        by_set = {}
        for chosen, share in choices(found):
            by_set[frozenset(chosen)] = by_set.get(frozenset(chosen), 0) + share
        for chosen, share in by_set.items():
            for written in product(range(1, 5), repeat=len(chosen)):
                chance = prod(digits(found[cell])[d] for cell, d in zip(chosen, written, strict=True))
                if chance:
                    after = list(now)
                    for cell, d in zip(chosen, written, strict=True):
                        after[cell] = d
                    total += share * chance * (valid(tuple(after)) if is_right(after) else 0)
        return total

    return valid(board)


def is_right(board):
    """Whether no digit stands twice in a unit."""
    return all(board[cell] == 0 or board[cell] not in {board[peer] for peer in PEERS[cell]} for cell in range(16))


def drawn_board(seed, blanks):
    """A random board with so many blanks."""
    rng = np.random.default_rng(seed)
    grids = completions((0,) * 16)
    board = np.array(grids[rng.integers(len(grids))], dtype=np.uint8)
    board[rng.permutation(16)[:blanks]] = 0
    return board


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_every_decode_enumerated_gives_the_same(order):
    board = first_with(lambda one: count_solutions(one, 3) == 3, lambda n: drawn_board(n, 9), seed=0, tries=500)
    cells = 2 if order.score == "random" else 3
    found = ceilings(order, cells).of(board)
    for way, tokens in enumerate(TOKENS):
        expected = brute_force(tuple(map(int, board)), order, cells, tokens)
        assert found[way] == pytest.approx(float(expected), abs=1e-12)


def test_images_under_symmetries_have_the_same_ceiling():
    board = drawn_board(3, 11)
    found = ceilings(Order("margin"), 3)
    every = [found.of(image) for image in symmetric_images([board], 20, seed=1)]
    assert np.ptp(every, axis=0) == pytest.approx(0, abs=1e-12)
    left = ceilings(Order("margin", "left"), 3)
    every = [left.of(image) for image in symmetric_images([board], 20, symmetries="digits", seed=1)]
    assert np.ptp(every, axis=0) == pytest.approx(0, abs=1e-12)


def test_the_mean_is_that_of_all_boards_with_so_many_clues():
    found = ceilings(Order("margin", "left"), 4)
    boards = [
        [digit if cell == place else 0 for place, digit in enumerate(grid)]
        for grid in completions((0,) * 16)[::17]
        for cell in range(16)
    ]
    assert found.mean(0) == pytest.approx(found.of("." * 16))
    assert found.mean(1) == pytest.approx(np.mean([found.of(board) for board in boards], axis=0))
    assert found.mean(15) == pytest.approx(1) and found.mean(16) == pytest.approx(1)
