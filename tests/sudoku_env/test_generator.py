import sys
from itertools import islice, pairwise
from threading import Event
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import count_solutions, generator, rate, solve_batch
from sudoku_env.board import SIZES, is_solved, to_string
from sudoku_env.errors import BoardError
from sudoku_env.generator import DEFAULT_CLUES, generate
from sudoku_env.kernels.generate import new_bench, thin_out
from sudoku_env.kernels.ladder_state import BACKBONE, HIDDEN_SINGLE, ladder_table, new_work
from sudoku_env.kernels.search_state import LEFT, new_search
from sudoku_env.logic import RULE_GROUPS, RULES
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers import sudoku_reference as reference
from tests.sudoku_env.helpers.singles import singles_rounds

CLUES = {4: (4, 8), 6: (14, 18), 9: (26, 34), 16: (115, 140)}


def equal(one, other):
    return (one.boards == other.boards).all() and (one.solutions == other.solutions).all()


def is_minimal(board):
    """Whether a clue less leaves several solutions, whichever it is."""
    cells = np.arange(board.size)
    return all(count_solutions(np.where(cells == clue, 0, board)) == 2 for clue in np.flatnonzero(board))


def clue_counts(puzzles):
    return (puzzles.boards > 0).sum(1)


def needed(boards):
    """The hardest rule that each board needs."""
    return [rate(board).rule for board in boards]


# what puzzles are like


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rule", ["singles", None])
def test_puzzles_are_unique_and_keep_their_rule(size, rule):
    puzzles = generate(10, size=size, clues=CLUES[size], seed=0, rule=rule)
    boards, solutions = puzzles.boards, puzzles.solutions
    assert len(puzzles) == 10 and boards.shape == (10, size * size) and boards.dtype == solutions.dtype == np.uint8
    assert all(map(is_solved, solutions))
    assert ((boards == 0) | (boards == solutions)).all()
    assert np.isin(clue_counts(puzzles), np.arange(CLUES[size][0], CLUES[size][1] + 1)).all()
    assert (solve_batch(boards, limit=2)[1] == 1).all()
    assert rule is None or all(singles_rounds(board) > 0 for board in boards)


@settings(max_examples=40)
@given(
    st.sampled_from([4, 6]),
    st.booleans(),
    st.sampled_from([None, "singles", "naked_single", "pairs"]),
    st.integers(0, 2**64 - 1),
)
def test_promises_by_backtracking(size, minimal, rule, seed):
    clues = None if minimal else {4: (6, 10), 6: (16, 24)}[size]
    puzzles = generate(2, size=size, clues=clues, minimal=minimal, rule=rule, seed=seed, attempts=20_000)
    for board, solution in zip(puzzles.boards, puzzles.solutions, strict=True):
        assert list(reference.solutions(board)) == [tuple(solution)]
        if minimal:
            for cell in np.flatnonzero(board):
                assert len(list(islice(reference.solutions(np.where(np.arange(size * size) == cell, 0, board)), 2))) > 1
        else:
            assert clues[0] <= (board > 0).sum() <= clues[1]
        if rule == "singles":
            while any(definite := reference.definite(board)):
                board = board + np.array(definite, np.uint8)
            assert (board == solution).all()
        elif rule:
            assert rate(board, rule).solved


@pytest.mark.parametrize("size", SIZES)
def test_default_clues(size):
    counts = clue_counts(generate(30, size=size, seed=3))
    assert DEFAULT_CLUES[size][0] <= counts.min() < counts.max() <= DEFAULT_CLUES[size][1]


def test_clues_are_drawn_uniformly():
    counts = np.bincount(clue_counts(generate(3000, size=6, clues=(14, 18), rule="singles", seed=1)))
    assert (counts[:14] == 0).all() and len(counts) == 19
    assert (abs(counts[14:] - 600) < 100).all()  # standard deviation 22


def test_no_digit_and_no_cell_is_preferred():
    puzzles = generate(3000, size=6, clues=18, seed=2)
    for cell in (0, 14, 35):
        assert (abs(np.bincount(puzzles.solutions[:, cell])[1:] - 500) < 100).all()  # standard deviation 20
    assert (abs((puzzles.boards > 0).mean(0) - 0.5) < 0.05).all()  # standard deviation 0.009


# minimal, rules


@pytest.mark.parametrize("options", [{}, {"rule": "singles"}, {"clues": (23, 24)}])
def test_minimal_9x9_puzzles(options):
    puzzles = generate(4, size=9, minimal=True, seed=4, **options)
    for board in puzzles.boards:
        assert count_solutions(board) == 1 and is_minimal(board)
        assert "rule" not in options or singles_rounds(board) > 0
    assert "clues" not in options or set(clue_counts(puzzles)) <= {23, 24}


@pytest.mark.parametrize("rule", ["locked", "x_wing", "wings"])
def test_rule_as_a_bound(rule):
    puzzles = generate(5, size=9, clues=25, rule=rule, seed=5)
    assert all(rate(board, rule).solved for board in puzzles.boards)
    assert (clue_counts(puzzles) == 25).all()


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ("naked_single", {"naked_single"}),
        ("singles", {"naked_single", "hidden_single"}),
        ("hidden_single", {"hidden_single"}),
        ("claiming", {"claiming"}),
        ("locked", {"pointing", "claiming"}),
        ("pairs", {"naked_pair", "hidden_pair"}),
        ("wings", {"xy_wing", "xyz_wing", "w_wing"}),
        ("backbone", {"backbone"}),
    ],
)
def test_rule_exactly(rule, allowed):
    puzzles = generate(5, size=9, rule=rule, exact=True, seed=6)
    assert set(needed(puzzles.boards)) <= allowed
    assert clue_counts(puzzles).max() < (50 if rule == "naked_single" else 30)


def test_exact_with_a_number_of_clues_and_minimal():
    assert set(needed(generate(5, size=9, clues=28, rule="locked", exact=True, seed=7).boards)) <= set(RULES[2:4])
    puzzles = generate(5, size=9, minimal=True, rule="pairs", exact=True, seed=7)
    assert set(needed(puzzles.boards)) <= {"naked_pair", "hidden_pair"}
    assert all(map(is_minimal, puzzles.boards))


def test_exact_groups_share_no_rule():
    bounds = [generator.rule_bounds(group, True) for group in RULE_GROUPS]
    assert bounds[0][0] == 0
    assert all(one[1] + 1 == other[0] for one, other in pairwise(bounds))
    assert bounds[-1][1] == RULES.index("backbone") - 1


@pytest.mark.parametrize(("size", "ceiling"), [(4, BACKBONE), (6, BACKBONE), (9, BACKBONE), (6, HIDDEN_SINGLE), (9, 3)])
def test_thinning_many_at_once_is_thinning_one_by_one(size, ceiling):
    table, cells = ladder_table(size), size * size
    bench, search, rng = new_bench(size), new_search(size), np.random.default_rng(size)
    search.state[LEFT] = 10**9
    for solution in generate(3, size=size, clues=cells, seed=size).solutions:
        bench.order[:] = rng.permutation(cells)
        board, expected = solution.copy(), solution.copy()
        for cell in bench.order:
            expected[cell] = 0
            if count_solutions(expected) > 1 or not rate(expected, RULES[ceiling]).solved:
                expected[cell] = solution[cell]
        clues = thin_out(board, solution, 0, ceiling, table, new_work(size), bench, search)
        assert (board == expected).all() and clues == (expected > 0).sum()


# seeds, threads, progress


def test_seeds():
    first, again, later, other = (
        generate(count, size=6, clues=(14, 18), seed=seed, first=start)
        for count, seed, start in ((20, 7, 0), (30, 7, 0), (12, 7, 18), (20, 8, 0))
    )
    assert (again.boards[:20] == first.boards).all() and (again.solutions[:20] == first.solutions).all()
    assert (again.boards[18:] == later.boards).all() and (again.solutions[18:] == later.solutions).all()
    assert len({board.tobytes() for board in again.boards}) == 30
    assert not (other.boards == first.boards).all(1).any()
    assert generate(0, size=6, clues=20, seed=2**64 - 1).boards.shape == (0, 36)
    assert len(generate(1, size=6, clues=20, seed=0, first=2**62 - 1)) == 1


@pytest.mark.parametrize(("size", "options"), [(9, {}), (9, {"rule": "pairs"}), (6, {"minimal": True}), (16, {})])
def test_threads_change_nothing(size, options):
    one = generate(60, size=size, seed=9, **options)
    assert equal(one, generate(60, size=size, seed=9, threads=3, **options))
    assert (one.boards[:7] == generate(7, size=size, seed=9, threads=2, **options).boards).all()


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_chunks_cover_everything_once(monkeypatch, threads, seconds):
    ticks = iter(np.arange(0, 10_000) * seconds)
    monkeypatch.setattr(generator.time, "perf_counter", lambda: next(ticks))
    seen, reported = [], []
    generator._work_in_chunks(lambda begin, end: seen.extend(range(begin, end)), 50, threads, reported.append, Event())
    assert sorted(seen) == list(range(50)) and sum(reported) == 50
    assert (max(reported) == 1) == (seconds > 0)


def test_progress_bar(capsys, monkeypatch):
    generate(20, size=4, seed=0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(generator, "BAR_DELAY", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    generate(20, size=4, seed=0)
    assert "20/20" in capsys.readouterr().err


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_stops_between_chunks(monkeypatch, threads):
    monkeypatch.setattr(generator, "generate_range", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        generate(20, size=4, seed=0, threads=threads)


def test_recorded_puzzles():
    """The puzzles are the same on any machine; a change here changes every data set made from a seed."""
    small = generate(1, size=6, clues=16, rule="singles", seed=0)  # golden
    minimal = generate(1, size=9, minimal=True, seed=0)  # golden
    pairs = generate(1, size=9, rule="pairs", exact=True, seed=0)  # golden
    assert to_string(small.solutions[0]) == "135426246315561234324651612543453162"
    assert [to_string(puzzle.boards[0]) for puzzle in (small, minimal, pairs)] == [
        "13.42.246......23......1..2..345.1.2",
        "..5..4...6.........7.16..85..63.......2.5.9..1...2.8...4.6..7....37.5..6......2.9",
        "........7..85....2.....46..4.5.263....2.958...7........39.4..5.7...1.......6...1.",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 4, "clues": 3}, r"no 4×4 puzzle in 1000 attempts \(puzzle 0, clues 3"),  # a 4×4 needs 4
        ({"size": 6, "clues": (7, 7), "attempts": 50}, "ask for more clues"),  # a 6×6 needs 8
        ({"minimal": True, "clues": 30, "attempts": 5}, r"came to were \d+; ask for fewer clues"),
        ({"clues": 0}, "within 1..36"),
        ({"clues": (18, 14)}, "within 1..36"),
        ({"clues": 37}, "within 1..36"),
        ({"clues": "16"}, "clues '16' is not a number"),
        ({"clues": (1, 2, 3)}, "is not a number"),
        ({"size": 5}, "size 5"),
        ({"rule": "guess"}, "'guess' is unknown"),
        ({"exact": True}, "exact=True needs a rule"),
        ({"clues": 10, "rule": "turbot_fish", "exact": True, "attempts": 1}, "rule 'turbot_fish', exact True"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"n": -1}, "n >= 0"),
        ({"first": -1}, "0 <= first"),
        ({"first": 2**62}, "0 <= first"),
        ({"size": 4, "clues": 3, "first": 5}, r"\(puzzle 5, clues 3"),
        ({"attempts": 0}, "attempts >= 1"),
        ({"threads": 0}, "threads >= 1"),
    ],
)
def test_errors(change, message):
    refused(message, lambda: generate(**{"n": 1, "size": 6, "clues": 16, "seed": 0, **change}), BoardError)


def test_fractions_are_no_numbers():
    with pytest.raises(TypeError):
        generate(1, size=6, seed=1.5)
