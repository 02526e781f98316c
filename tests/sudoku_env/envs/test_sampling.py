import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudoku_env import SudokuError, sample_legal
from tests.helpers.refusals import refused


class Fixed:
    """A generator that always returns one number."""

    def __init__(self, value):
        self.value = value

    def random(self, size=None):
        return self.value if size is None else np.full(size, self.value)


def picked(choices, share):
    return choices[int(share * len(choices))] if len(choices) else 0


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.floats(0, 1, exclude_max=True), st.booleans())
def test_the_share_picks_from_the_list_of_legal_actions(legal, share, as_bool):
    masks = np.array([legal, np.logical_not(legal)], dtype=bool if as_bool else np.int8)
    expected = [picked(np.flatnonzero(mask), share) for mask in masks]
    assert sample_legal(masks[0], Fixed(share)) == expected[0]
    batch = sample_legal(masks, Fixed(share))
    assert batch.dtype == np.int64 and batch.tolist() == expected


def test_the_last_share_below_one_stays_inside():
    below = np.nextafter(1.0, 0.0)
    for count in range(1, 4097, 5):
        assert sample_legal(np.ones(count, dtype=np.int8), Fixed(below)) == count - 1


def test_uniform_and_seeded():
    mask = np.zeros(729, dtype=np.int8)
    mask[[3, 70, 200, 728]] = 1
    drawn = sample_legal(np.repeat(mask[None], 8000, axis=0), np.random.default_rng(0))
    actions, counts = np.unique(drawn, return_counts=True)
    assert actions.tolist() == [3, 70, 200, 728]
    assert abs(counts - 2000).max() < 5 * np.sqrt(1500)
    again = np.random.default_rng(0)
    assert [sample_legal(mask, again) for _ in range(50)] == drawn[:50].tolist()


def test_strided_masks():
    wide = np.zeros((6, 40), dtype=np.int8)
    wide[:, 11] = 1
    assert sample_legal(wide[:, 1::2], np.random.default_rng(0)).tolist() == [5] * 6
    assert sample_legal(wide[0, 1::2], np.random.default_rng(0)) == 5


@pytest.mark.parametrize("mask", [np.zeros((1, 2, 3), dtype=np.int8), np.int8(1), [1, 0]])
def test_other_shapes_are_refused(mask):
    refused(r"\(A,\) or \(B, A\)", lambda: sample_legal(mask, np.random.default_rng(0)), SudokuError)
