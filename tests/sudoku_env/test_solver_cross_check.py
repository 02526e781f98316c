import os
from pathlib import Path

import numpy as np
import pytest

from sudoku_env import count_solutions, generate, solve, solve_batch
from sudoku_env.board import geometry, parse_board
from tests.sudoku_env.helpers import backtracking
from tests.sudoku_env.helpers import sudoku_reference as reference

COPIED = sorted((Path(__file__).parents[1] / "data").glob("sudoku_exchange_*.txt"))
LIMIT = 3


def read(path, most, rng):
    """The puzzles, at most so many, chosen at random, of a file with one packed 9×9 puzzle a line."""
    lines = [line[:81] for line in path.read_text().splitlines() if len(line.rstrip()) >= 81]
    chosen = rng.permutation(len(lines))[:most]
    return np.stack([parse_board(lines[k], 9) for k in chosen])


def variants(boards, rng):
    """Each board under a random symmetry: as it is, with clues removed, with digits added, and with digits replaced."""
    images = np.zeros_like(boards)
    for image, board in zip(images, boards, strict=True):
        cells, digits = reference.random_symmetry(9, rng)
        image[:] = digits[board[cells]]
    fewer, more, wrong = images.copy(), images.copy(), images.copy()
    for k in range(len(boards)):
        clues, blanks = np.flatnonzero(images[k]), np.flatnonzero(images[k] == 0)
        fewer[k, rng.choice(clues, rng.integers(1, 4), replace=False)] = 0
        more[k, rng.choice(blanks, rng.integers(1, 3), replace=False)] = rng.integers(1, 10)
        wrong[k, rng.choice(clues)] = rng.integers(1, 10)
    return np.concatenate([images, fewer, more, wrong])


def check(boards):
    """Counts and solutions of the solver against backtracking; returns how often each count came up."""
    solutions, counts = solve_batch(boards, limit=LIMIT)
    assert (solve_batch(boards, limit=LIMIT, threads=2)[0] == solutions).all()
    firsts, solvable = solve_batch(boards, limit=1)
    assert (firsts == solutions).all() and (solvable == np.minimum(counts, 1)).all()
    slow = np.zeros_like(solutions[0])
    for board, solution, count in zip(boards, solutions, counts, strict=True):
        assert count == backtracking.count_solutions(board, LIMIT, slow), board
        if count == 0:
            assert not solution.any()
        elif count == 1:
            assert (solution == slow).all()
        else:
            assert backtracking.count_solutions(solution, 2, slow) == 1
            assert (solution[board > 0] == board[board > 0]).all()
    return np.bincount(counts, minlength=LIMIT + 1)


def test_a_sample_against_backtracking():
    rng = np.random.default_rng(0)
    made = generate(100, size=9, clues=(24, 32), rule=None, seed=7).boards
    boards = np.concatenate([made, *(read(path, 60, rng) for path in COPIED)])
    assert (check(variants(boards, rng)) > [50, 50, 5, 50]).all()


def test_sparse_boards_against_backtracking():
    """Few clues: no cell with two candidates, long searches, many solutions or none."""
    rng = np.random.default_rng(1)
    boards = variants(generate(60, size=9, clues=(24, 28), rule=None, seed=8).boards, rng)
    for board in boards:
        board[rng.choice(81, 40, replace=False)] = 0
    assert check(boards)[LIMIT] > 50


def test_every_solution_of_loose_boards_is_counted_once():
    """Boards with up to thousands of solutions, where several cells are guessed at once, counted to the end."""
    rng, many = np.random.default_rng(2), 5000
    boards = generate(60, size=9, minimal=True, seed=9).boards
    for board in boards:
        board[rng.choice(np.flatnonzero(board), 2, replace=False)] = 0
    counts = solve_batch(boards, limit=many)[1]
    slow = [backtracking.count_solutions(board, many, np.zeros(81, np.uint8)) for board in boards]
    assert counts.tolist() == slow
    assert np.sum((counts > 100) & (counts < many)) > 10


def test_a_clash_on_an_empty_board_is_seen_at_once():
    """All pairs of peers with the same digit and nothing else, which a search without a look at them would not end."""
    boards = np.zeros((810, 81), np.uint8)
    pairs = [(cell, int(peer)) for cell, peers in enumerate(geometry(9).peers) for peer in peers if peer > cell]
    for board, pair in zip(boards, pairs, strict=True):
        board[list(pair)] = 5
    assert not solve_batch(boards, limit=2)[1].any()


def test_the_slow_solver_itself():
    solution = np.zeros(81, np.uint8)
    assert backtracking.count_solutions.py_func(np.zeros(81, np.uint8), 2, solution) == 2
    board = parse_board("53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79")
    assert backtracking.count_solutions.py_func(board, 2, solution) == 1
    assert tuple(solution) == next(reference.solutions(board))
    board[2] = 5
    assert backtracking.count_solutions.py_func(board, 2, solution) == 0


def test_forms_of_one_board():
    """The fast ways in for strings and arrays agree with the slow ones, blanks written in any way."""
    text = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
    board = parse_board(text)
    expected = solve_batch(board[None])[0][0]
    forms = [text, text.replace(".", "0"), text.replace(".", "_"), text.replace(".", "*"), board, board.reshape(9, 9)]
    forms += [board.astype(np.int64), board.tolist(), np.asfortranarray(board.reshape(9, 9)), np.repeat(board, 2)[::2]]
    for form in forms:
        assert (solve(form) == expected).all() and count_solutions(form) == 1
        assert (solve(form, size=9) == expected).all()


@pytest.mark.long
def test_two_hundred_thousand_boards_against_backtracking():
    """The copied sets, generated puzzles and, if it is set, the files of SUDOKU_PUZZLES, one puzzle a line."""
    rng = np.random.default_rng(2)
    parts = [read(path, 500, rng) for path in COPIED]
    if "SUDOKU_PUZZLES" in os.environ:
        parts += [read(path, 6000, rng) for path in sorted(Path(os.environ["SUDOKU_PUZZLES"]).glob("*.txt"))]
    missing = 50_000 - sum(len(part) for part in parts)
    parts.append(generate(max(missing, 1000), size=9, clues=(22, 36), rule=None, seed=9).boards)
    boards = variants(np.concatenate(parts), rng)
    assert len(boards) >= 200_000
    totals = sum(check(boards[start : start + 5000]) for start in range(0, len(boards), 5000))
    assert (totals > [5000, 5000, 500, 5000]).all()
