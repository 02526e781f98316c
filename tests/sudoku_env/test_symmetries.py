"""Images of puzzles under the symmetries of Sudoku."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import default_puzzles, rate, solve_batch, symmetric_images
from sudoku_env.errors import BoardError, SudokuError
from sudoku_env.grids import canonical_grid
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.every_grid import every_grid


@settings(max_examples=20)
@given(size=st.sampled_from([4, 6, 9]), symmetries=st.sampled_from(["digits", "all"]), seed=st.integers(0, 2**32))
def test_images_are_puzzles_of_the_same_class(size: int, symmetries: str, seed: int) -> None:
    boards = default_puzzles(size).boards[seed % 50 :][:3]
    images = symmetric_images(boards, 4, symmetries=symmetries, seed=seed)
    assert images.shape == (12, size * size)
    assert np.array_equal(images[:3], boards)
    solutions, counts = solve_batch(images, limit=2)
    assert (counts == 1).all()
    for number, image in enumerate(images):
        assert canonical_grid(solutions[number]) == canonical_grid(solutions[number % 3])
        assert rate(image).rule == rate(boards[number % 3]).rule


def test_digits_leave_the_clues_where_they_are_and_rename_them_alike() -> None:
    boards = default_puzzles(6).boards[:20]
    images = symmetric_images(boards, 50, symmetries="digits", seed=1)
    assert ((images > 0) == np.tile(boards > 0, (50, 1))).all()
    names = set()
    for number, image in enumerate(images):
        source = boards[number % 20]
        pairs = set(zip(source.tolist(), image.tolist(), strict=True))
        assert len(pairs) == len({old for old, _ in pairs}) == len({new for _, new in pairs})
        names.add(tuple(sorted(pairs)))
    assert len(names) > 400  # of 720 permutations, 980 draws find about 535


def test_all_symmetries_move_the_clues_and_a_seed_repeats() -> None:
    boards = default_puzzles(9).boards[:5]
    images = symmetric_images(boards, 10, seed=3)
    assert not np.array_equal(images[5:10] > 0, boards > 0)
    assert np.array_equal(images, symmetric_images(boards, 10, seed=3))
    assert not np.array_equal(images, symmetric_images(boards, 10, seed=4))


def test_every_symmetry_of_a_grid_is_reached() -> None:
    grid = default_puzzles(4).solutions[:1]
    images = {image.tobytes() for image in symmetric_images(grid, 5000, seed=0)}
    alike = {other.tobytes() for other in every_grid() if canonical_grid(other) == canonical_grid(grid[0])}
    assert images == alike


def test_bad_input_is_named() -> None:
    boards = default_puzzles(4).boards[:2]
    refused("count=0 must be at least 1", lambda: symmetric_images(boards, 0), SudokuError)
    refused("symmetries='rows' are unknown", lambda: symmetric_images(boards, 2, symmetries="rows"), SudokuError)
    refused("boards is empty", lambda: symmetric_images([], 2), BoardError)
