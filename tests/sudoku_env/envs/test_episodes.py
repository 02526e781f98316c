import numpy as np
import pytest
from gymnasium.utils import seeding

from sudoku_env.envs.episodes import Streams, puzzle_pool
from sudoku_env.errors import BoardError
from sudoku_env.logic import singles_rounds
from sudoku_env.puzzles import default_puzzles


def test_pools():
    assert puzzle_pool(9, None, None) is default_puzzles(9)
    pool = puzzle_pool(6, [20, 22], 10)
    assert len(pool) == 10 and all(singles_rounds(board) > 0 for board in pool.boards)
    assert {int((board > 0).sum()) for board in pool.boards} <= {20, 21, 22}
    assert puzzle_pool(6, (20, 22), 10) is pool
    assert len(puzzle_pool(4, 8, None)) == 256
    with pytest.raises(BoardError, match="clues"):
        puzzle_pool(4, 17, None)


def test_a_stream_is_begun_by_its_generator_and_goes_on():
    streams, twin = Streams(1), Streams(3)
    streams.follow(seeding.np_random(5)[0])
    twin.seed(2, 5)
    assert twin.states[2] == streams.states[0] != 0 and twin.states[0] == 0
    first = streams.draw(1000).tolist() + streams.draw(1000).tolist()
    rows = np.array([False, False, True])
    assert first == twin.draw(1000, rows).tolist() + twin.draw(1000, rows).tolist()
    assert twin.states[2] == streams.states[0] and twin.states[1] == 0


def test_following_the_same_generator_changes_nothing():
    streams = Streams(2)
    generator = np.random.default_rng(0)
    streams.follow(generator)
    states = streams.states.copy()
    streams.follow(generator)
    np.testing.assert_array_equal(streams.states, states)
    other = np.random.default_rng(1)
    streams.accept(other)
    streams.follow(other)
    np.testing.assert_array_equal(streams.states, states)
    streams.follow(np.random.default_rng(1))
    assert (streams.states != states).all()


def test_draws_are_uniform():
    streams = Streams(6000)
    streams.follow(np.random.default_rng(0))
    counts = np.bincount(streams.draw(6), minlength=6)
    assert counts.sum() == 6000 and abs(counts - 1000).max() < 5 * np.sqrt(1000)
