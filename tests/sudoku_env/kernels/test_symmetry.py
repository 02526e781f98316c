from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import default_puzzles, definite_digits
from sudoku_env.board import SIZES, geometry, is_solved
from sudoku_env.kernels.symmetry import shuffle_lines, shuffle_puzzle
from tests.sudoku_env.helpers import sudoku_reference as reference
from tests.sudoku_env.helpers.singles import singles_rounds


def image(board, solution, size, seed):
    table = geometry(size)
    out = np.empty_like(board), np.empty_like(board)
    work = np.empty((3, size + 1), dtype=np.int64)
    rng = np.array([seed], dtype=np.uint64)
    shuffle_puzzle(board, solution, *out, size, table.box_rows, table.box_columns, rng, work)
    return out


@settings(max_examples=60)
@given(size=st.sampled_from(SIZES), which=st.integers(0, 99), seed=st.integers(0, 2**64 - 1))
def test_an_image_is_the_same_puzzle_in_disguise(size, which, seed):
    puzzles = default_puzzles(size)
    board, solution = puzzles.boards[which].copy(), puzzles.solutions[which].copy()
    twin, solved = image(board, solution, size, seed)
    assert is_solved(solved)
    assert ((twin == 0) | (twin == solved)).all()
    assert sorted(np.bincount(twin, minlength=size + 1)[1:]) == sorted(np.bincount(board, minlength=size + 1)[1:])
    assert (definite_digits(twin) > 0).sum() == (definite_digits(board) > 0).sum()
    assert singles_rounds(twin) == singles_rounds(board) > 0
    np.testing.assert_array_equal(puzzles.boards[which], board)


def test_all_images_of_a_4x4_grid_come_up_alike():
    """The orbit of a grid by brute force from the definition; each image is then drawn about equally often."""
    grid = np.array([1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1], dtype=np.uint8)
    rng = np.random.default_rng(0)
    orbit = set()
    for _ in range(4000):
        cells, digits = reference.random_symmetry(4, rng)
        orbit.add(tuple(digits[grid[cells]].tolist()))
    drawn = Counter(tuple(image(grid, grid, 4, seed * 7919)[0].tolist()) for seed in range(9600))
    assert drawn.keys() == orbit
    expected = 9600 / len(orbit)
    chi2 = sum((count - expected) ** 2 / expected for count in drawn.values())
    spread = np.sqrt(2 * (len(orbit) - 1))
    assert abs(chi2 - (len(orbit) - 1)) < 5 * spread


@pytest.mark.parametrize(("size", "thickness", "orders"), [(4, 2, 8), (6, 2, 48), (6, 3, 72)])
def test_lines_of_a_box_stay_together(size, thickness, orders):
    lines = np.empty(size, dtype=np.int64)
    rng = np.array([3], dtype=np.uint64)
    seen = Counter()
    for _ in range(200 * orders):
        shuffle_lines(lines, thickness, rng)
        bands = lines.reshape(-1, thickness) // thickness
        assert (bands == bands[:, :1]).all()
        seen[tuple(lines.tolist())] += 1
    assert len(seen) == orders
    assert max(abs(count - 200) for count in seen.values()) < 5 * np.sqrt(200)
