import numpy as np
import pytest

from sudoku_env.errors import BoardError, SudokuError
from sudoku_env.generator import generate
from sudoku_env.grids import canonical_grid
from sudoku_env.split import SPLITS, in_split, split_of
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.sudoku_reference import random_symmetry


@pytest.mark.parametrize("size", [6, 9])
def test_images_of_a_grid_share_its_split(size):
    made = generate(20, size=size, clues=size * size, seed=4)
    rng = np.random.default_rng(0)
    for grid in made.solutions:
        cells, digits = random_symmetry(size, rng)
        assert split_of(np.array(digits, np.uint8)[grid[cells]]) == split_of(grid)


def test_splits_share_no_class():
    made = generate(1500, size=6, clues=36, seed=5)
    classes = {name: {canonical_grid(g) for g in made.solutions[in_split(made.solutions, name)]} for name in SPLITS}
    assert all(classes.values())
    assert sum(map(len, classes.values())) == len(set().union(*classes.values()))


def test_every_grid_has_one_split():
    made = generate(50, size=6, clues=36, seed=6)
    assert (sum(in_split(made.solutions, name).astype(int) for name in SPLITS) == 1).all()


def test_shares_are_followed():
    made = generate(30, size=6, clues=36, seed=7)
    assert {split_of(grid, (1.0, 0.0, 0.0)) for grid in made.solutions} == {"train"}
    assert {split_of(grid, (0.0, 0.0, 1.0)) for grid in made.solutions} == {"test"}


def test_splits_of_grids_themselves():
    """The 288 grids of size 4 fall into all three splits; up to symmetry they are but two."""
    grids = np.unique(generate(5000, size=4, clues=16, seed=8).solutions, axis=0)
    shares = [in_split(grids, name, up_to_symmetry=False).mean() for name in SPLITS]
    assert len(grids) == 288 and np.allclose(shares, (0.6, 0.2, 0.2), atol=0.1)
    assert sum(in_split(grids, name).any() for name in SPLITS) < 3
    refused("full grid", lambda: split_of([0] * 16, up_to_symmetry=False), BoardError)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.6, 0.6, -0.2), (0.1, 0.1, 0.1)])
def test_shares_must_add_up(shares):
    made = generate(1, size=4, clues=16, seed=1)
    refused("add up to 1", lambda: split_of(made.solutions[0], shares), SudokuError)


def test_unknown_split():
    refused("'dev' is unknown", lambda: in_split(np.zeros((1, 36), np.uint8), "dev"), SudokuError)
