from itertools import permutations, product

import numpy as np
import pytest
import sudoku_reference as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env.board import SIZES, as_board, is_solved, to_string
from sudoku_env.errors import BoardError
from sudoku_env.generator import canonical_grid, generate
from sudoku_env.logic import singles_rounds
from sudoku_env.solver import solve_batch

CLUES = {4: (4, 8), 6: (14, 18), 9: (26, 34), 16: (115, 140)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rule", ["singles", "unique"])
def test_puzzles_are_unique_and_keep_their_rule(size, rule):
    puzzles = generate(10, size=size, clues=CLUES[size], seed=0, rule=rule)
    boards, solutions = puzzles.boards, puzzles.solutions
    assert len(puzzles) == 10 and boards.shape == (10, size * size) and boards.dtype == solutions.dtype == np.uint8
    assert all(map(is_solved, solutions))
    assert ((boards == 0) | (boards == solutions)).all()
    assert (np.isin((boards > 0).sum(1), np.arange(CLUES[size][0], CLUES[size][1] + 1))).all()
    assert (solve_batch(boards, limit=2)[1] == 1).all()
    assert rule == "unique" or all(singles_rounds(board) > 0 for board in boards)


@pytest.mark.parametrize(("rule", "clues"), [("singles", (14, 18)), ("unique", 9)])
def test_uniqueness_by_backtracking(rule, clues):
    puzzles = generate(10, size=6, clues=clues, seed=4, rule=rule)
    for board, solution in zip(puzzles.boards, puzzles.solutions, strict=True):
        assert list(reference.solutions(board)) == [tuple(solution)]


def test_clues_are_drawn_uniformly():
    counts = np.bincount((generate(3000, size=6, clues=(14, 18), seed=1).boards > 0).sum(1))
    assert (counts[:14] == 0).all() and len(counts) == 19
    assert (abs(counts[14:] - 600) < 100).all()  # standard deviation 22


def test_no_digit_and_no_cell_is_preferred():
    puzzles = generate(3000, size=6, clues=18, seed=2)
    for cell in (0, 14, 35):
        assert (abs(np.bincount(puzzles.solutions[:, cell])[1:] - 500) < 100).all()  # standard deviation 20
    assert (abs((puzzles.boards > 0).mean(0) - 0.5) < 0.05).all()  # standard deviation 0.009


def test_seeds():
    first = generate(20, size=6, clues=(14, 18), seed=7)
    again = generate(30, size=6, clues=(14, 18), seed=7)
    assert (again.boards[:20] == first.boards).all() and (again.solutions[:20] == first.solutions).all()
    assert len({board.tobytes() for board in again.boards}) == 30
    other = generate(20, size=6, clues=(14, 18), seed=8)
    assert not (other.boards == first.boards).all(1).any()
    assert generate(0, size=6, clues=20, seed=2**64 - 1).boards.shape == (0, 36)


def test_recorded_puzzle():
    """The same on any machine; a change here changes every data set made from a seed."""
    puzzle = generate(1, size=6, clues=16, seed=0)
    assert to_string(puzzle.boards[0]) == "6.3.....16234.623.....46..54.1....5."
    assert to_string(puzzle.solutions[0]) == "623514541623416235352146235461164352"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 4, "clues": 3}, "no 4×4 puzzle of 3 clues"),  # a 4×4 needs 4
        ({"size": 6, "clues": (7, 7), "rule": "unique", "attempts": 50}, "ask for more clues"),  # a 6×6 needs 8
        ({"clues": 0}, "within 1..36"),
        ({"clues": (18, 14)}, "within 1..36"),
        ({"clues": 37}, "within 1..36"),
        ({"size": 5}, "size 5"),
        ({"rule": "guess"}, "'guess' is unknown"),
        ({"seed": -1}, "seed"),
        ({"n": -1}, "n >= 0"),
        ({"attempts": 0}, "attempts >= 1"),
    ],
)
def test_errors(change, message):
    with pytest.raises(BoardError, match=message):
        generate(**{"n": 1, "size": 6, "clues": 16, "seed": 0, **change})


def all_images(grid, size):
    """Every image of a grid under band, stack, row and column orders, relabeled by first appearance: (images, n²)."""
    height, width = reference.BOXES[size]

    def orders(thickness):
        for bands in permutations(range(size // thickness)):
            for inner in product(permutations(range(thickness)), repeat=len(bands)):
                yield [band * thickness + line for band, lines in zip(bands, inner, strict=True) for line in lines]

    rows, columns = np.array(list(orders(height))), np.array(list(orders(width)))
    square = np.asarray(grid, dtype=np.int64).reshape(size, size)
    turned = [square, square.T] if height == width else [square]
    images = np.concatenate([g[rows[:, None, :, None], columns[None, :, None, :]] for g in turned])
    images = images.reshape(-1, size * size)
    labels = np.argsort(images[:, :size], axis=1) + 1
    return np.take_along_axis(labels, images - 1, axis=1).astype(np.uint8)


def test_two_classes_of_4x4_grids():
    grids = list(reference.solutions([0] * 16))
    forms = [canonical_grid(grid) for grid in grids]
    assert len(grids) == 288 and sorted(forms.count(form) for form in set(forms)) == [96, 192]
    assert canonical_grid("1234341221434321") != canonical_grid("1234341223414123")


def test_49_classes_of_6x6_grids_fill_the_space():
    """By orbit and stabilizer: 3456·6! symmetries, divided by those that fix a form, sum to all 28,200,960 grids."""
    forms = {canonical_grid(grid) for grid in generate(3000, size=6, clues=36, seed=3).solutions}
    total = 0
    for form in forms:
        images = all_images(list(form), 6)
        assert len(images) == 3456
        assert min(image.tobytes() for image in images) == form
        total += 3456 * 720 // (images == np.frombuffer(form, np.uint8)).all(1).sum()
    assert len(forms) == 49 and total == 28_200_960


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([4, 6]), st.integers(0, 2**32))
def test_canonical_form_is_invariant(size, seed):
    rng = np.random.default_rng(seed)
    grid = generate(1, size=size, clues=size * size, seed=seed).solutions[0]
    cells, digits = (np.array(part) for part in reference.random_symmetry(size, rng))
    form = canonical_grid(grid)
    assert canonical_grid(digits[grid[cells]]) == form == canonical_grid(list(form))
    assert len(form) == size * size and is_solved(list(form))


def test_canonical_grid_refuses_other_boards():
    with pytest.raises(BoardError, match="not 9"):
        canonical_grid([0] * 81)
    with pytest.raises(BoardError, match="full grid"):
        canonical_grid("123434122143432.")
    with pytest.raises(BoardError, match="full grid"):
        canonical_grid(as_board("1234341221434322"))
