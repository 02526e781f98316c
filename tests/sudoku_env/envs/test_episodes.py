import numpy as np
from gymnasium.utils import seeding

from sudoku_env.envs.episodes import Streams


def test_a_stream_is_begun_by_its_generator_and_goes_on():
    streams, twin = Streams(1), Streams(3)
    seed, row = 5, 2
    streams.follow(seeding.np_random(seed)[0])
    twin.seed(row, seed)
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
