import numpy as np
import pytest

from sudoku_env.errors import BoardError, SudokuError
from sudoku_env.generator import generate
from sudoku_env.grids import canonical_grid
from sudoku_env.split import SPLITS, in_split, split_of
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.every_grid import every_grid
from tests.sudoku_env.helpers.sudoku_reference import random_symmetry


def grids(count, size, seed):
    return generate(count, size=size, clues=size * size, seed=seed).solutions


@pytest.mark.parametrize("size", [6, 9])
def test_images_of_a_grid_share_its_split(size):
    rng = np.random.default_rng(0)
    for grid in grids(20, size, 4):
        cells, digits = random_symmetry(size, rng)
        assert split_of(digits[grid[cells]]) == split_of(grid)


def test_splits_share_no_class():
    made = grids(1500, 6, 5)
    classes = {name: {canonical_grid(grid) for grid in made[in_split(made, name)]} for name in SPLITS}
    assert all(classes.values())
    assert sum(map(len, classes.values())) == len(set().union(*classes.values()))


def test_every_grid_has_one_split():
    assert (np.sum([in_split(grids(50, 6, 6), name) for name in SPLITS], axis=0) == 1).all()


def test_splits_of_grids_themselves():
    """The 288 grids of size 4 fall into all three splits; up to symmetry they are but two."""
    found = [split_of(grid, up_to_symmetry=False) for grid in every_grid()]
    assert np.allclose([found.count(name) / 288 for name in SPLITS], (0.6, 0.2, 0.2), atol=0.1)
    assert sum(in_split(every_grid(), name).any() for name in SPLITS) < 3
    refused("full grid", lambda: split_of([0] * 16, up_to_symmetry=False), BoardError)


def test_unknown_split():
    refused("'dev' is unknown", lambda: in_split(np.zeros((1, 36), np.uint8), "dev"), SudokuError)
