from functools import partial

import gymnasium
import numpy as np
import pytest

from sudoku_env import SudokuEnv, SudokuError, default_puzzles, sample_legal
from sudoku_env.board import SIZES, is_valid, parse_board
from sudoku_env.envs.dynamics import unmask_reward
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers import sudoku_reference as reference
from tests.sudoku_env.helpers.environments import BOARD, bare
from tests.sudoku_env.helpers.sources import pool_of, shuffled_pool

LOOSE = "1...|..3.|.1..|...2"  # solved: 1 3 2 4 | 4 2 3 1 | 2 1 4 3 | 3 4 1 2
KEYS = {"action_mask", "error", "illegal", "steps"}


make = partial(bare, BOARD)


def slow_mask(board):
    n = reference.size(board)
    return [int(digit in options) for options in reference.candidates(board) for digit in range(1, n + 1)]


def test_an_episode_by_hand():
    env = make(source=pool_of([LOOSE]))
    obs, info = env.reset(seed=0)
    assert obs.dtype == np.uint8 and obs.tolist() == parse_board(LOOSE).tolist()
    assert info.keys() == KEYS and (info["steps"], info["error"], info["illegal"]) == (0, False, False)
    assert env.solution.tolist() == [1, 3, 2, 4, 4, 2, 3, 1, 2, 1, 4, 3, 3, 4, 1, 2]
    assert np.flatnonzero(env.definite).tolist() == [1, 2, 3, 7, 8, 10, 11, 14]
    obs, reward, terminated, truncated, info = env.step(4 * 4 + 3)  # 4 is right in cell 4, but 2 could stand there too
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert obs[4] == 4 and info["steps"] == 1
    assert env.step(3 * 4 + 3)[1:3] == (1.0, False)  # nothing but 4 can stand in cell 3
    obs, reward, terminated, truncated, info = env.step(1 * 4 + 1)  # a 2 in cell 1, where a 3 belongs
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info.keys() == KEYS and (info["steps"], info["error"], info["illegal"]) == (3, True, False)
    assert obs.tolist() == [1, 2, 0, 4, 4, 0, 3, 0, 0, 1, 0, 0, 0, 0, 0, 2] and not env.definite.any()
    assert info["action_mask"].tolist() == slow_mask(obs)


def test_a_wrong_digit_goes_on_to_a_dead_end():
    env = make(source=pool_of([LOOSE]), end_on="dead_end")
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(5 * 4 + 3)  # a 4 in cell 5, where a 2 belongs; leaves cell 13 only 3
    assert (reward, terminated, info["error"]) == (0.0, False, True)
    assert not env.definite.any()
    assert env.step(3 * 4 + 3)[1:3] == (0.0, False)  # the right 4 in cell 3: no reward any more
    obs, reward, terminated, truncated, info = env.step(12 * 4 + 2)  # a 3 next to cell 13
    assert (reward, terminated, truncated, info["illegal"], info["error"]) == (0.0, True, False, False, True)
    assert not info["action_mask"][13 * 4 :][:4].any() and obs[13] == 0
    refused("reset", lambda: env.step(0), gymnasium.error.ResetNeeded)


@pytest.mark.parametrize("end_on", ["error", "dead_end"])
@pytest.mark.parametrize("size", [4, 6, 9])
def test_random_play_against_a_slow_reference(size, end_on):
    """Masks, definite cells, rewards and ends of legal and illegal play, all from the definition."""
    rng = np.random.default_rng(size)
    env = make(source=shuffled_pool(size), end_on=end_on)
    ends = set()
    for episode in range(12 if size < 9 else 3):
        obs, info = env.reset(seed=episode)
        solution, terminated, steps = env.solution, False, 0
        assert list(reference.solutions(obs)) == [tuple(solution.tolist())]
        while not terminated:
            board = obs
            assert info["action_mask"].dtype == np.int8 and info["action_mask"].tolist() == slow_mask(board)
            wrong = ((board > 0) & (board != solution)).any()
            definite = np.array(reference.definite(board)) > 0
            np.testing.assert_array_equal(env.definite, definite & ~wrong)
            action = sample_legal(info["action_mask"], rng)
            if rng.random() < (0.97 if end_on == "error" else 0.5):  # mostly the right digit
                cell = rng.choice(np.flatnonzero(board == 0))
                action = cell * size + solution[cell] - 1
            if rng.random() < 0.05:
                action = rng.integers(size**3)
            legal = info["action_mask"][action] == 1
            cell, digit = action // size, action % size + 1
            deduced = definite[cell] and not wrong
            expected = unmask_reward(True, deduced, digit == solution[cell], 0.0) if legal else -1.0
            obs, reward, terminated, truncated, info = env.step(action)
            after = board.copy()
            if legal:
                after[cell] = digit
                steps += 1
            assert obs.tolist() == after.tolist()
            assert (reward, truncated, info["illegal"], info["steps"]) == (expected, False, not legal, steps)
            assert info["error"] == ((after > 0) & (after != solution)).any()
            dead = any(not left and not digit for left, digit in zip(reference.candidates(after), after, strict=True))
            ended = info["error"] if end_on == "error" else dead
            assert terminated == (not legal or ended or bool(after.all()))
            if terminated:
                assert info["action_mask"].tolist() == slow_mask(after)
                ends.add((bool(info["illegal"]), bool(ended), bool(after.all())))
    assert len(ends) >= (2 if size < 9 else 1)


def test_actions_outside_the_mask_change_nothing():
    env = make(source=pool_of([LOOSE]), illegal_reward=-2.0)
    for action in (0, 1, 4):  # a given rewritten, a given changed, a clash with it
        obs, before = env.reset(seed=0)
        after, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == (-2.0, True, False)
        assert info["illegal"] and not info["error"] and info["steps"] == 0
        np.testing.assert_array_equal(after, obs)
        np.testing.assert_array_equal(info["action_mask"], before["action_mask"])
    refused("reset", lambda: env.step(0), gymnasium.error.ResetNeeded)
    env.reset(seed=0)
    refused(r"outside 0\.\.63", lambda: env.step(64), gymnasium.error.InvalidAction)
    refused(r"outside 0\.\.63", lambda: env.step(-1), gymnasium.error.InvalidAction)
    refused("expected an integer, got bool: action True", lambda: env.step(True), gymnasium.error.InvalidAction)
    refused("expected an integer, got float", lambda: env.step(0.5), gymnasium.error.InvalidAction)


@pytest.mark.parametrize("size", SIZES)
def test_definite_cells_first_earn_one_each(size):
    env = make(source=shuffled_pool(size))
    obs, info = env.reset(seed=2)
    blanks, total, terminated = int((obs == 0).sum()), 0.0, False
    while not terminated:
        cell = int(np.flatnonzero(env.definite)[0])
        obs, reward, terminated, _, info = env.step(cell * size + env.solution[cell] - 1)
        total += reward
    assert total == blanks and not info["error"]
    assert obs.tolist() == env.solution.tolist()
    assert not info["action_mask"].any()


def test_masks_for_other_libraries():
    env = make(source=shuffled_pool(6))
    for ask in (env.action_masks, lambda: env.definite, lambda: env.solution, env.render):
        refused("reset", ask, gymnasium.error.ResetNeeded)
    _, info = env.reset(seed=0)
    assert env.action_masks().dtype == bool
    np.testing.assert_array_equal(env.action_masks(), info["action_mask"])
    assert info["action_mask"][env.action_space.sample(info["action_mask"])] == 1


def test_the_stream_of_puzzles():
    env, twin = make(source=shuffled_pool(4)), make(source=shuffled_pool(4))
    first, second = ([one.reset(seed=seed)[0].tobytes() for seed in (5, *[None] * 20)] for one in (env, twin))
    assert first == second and len(set(first)) > 15
    assert env.reset(seed=6)[0].tobytes() != first[0]
    for one in (env, twin):  # a generator put in place of the old one begins a new stream
        one.np_random = np.random.default_rng(8)
    for _ in range(2):
        assert env.reset()[0].tobytes() == twin.reset()[0].tobytes()
    assert SudokuEnv().reset()[0].tobytes() != SudokuEnv().reset()[0].tobytes()


def test_pool_puzzles_are_rearranged_and_given_ones_are_not():
    shipped = default_puzzles(4).boards
    env = make(source=shuffled_pool(4))
    boards = np.array([env.reset(seed=seed)[0] for seed in range(30)])
    assert all(map(is_valid, boards))
    assert sum((shipped == board).all(1).any() for board in boards) < 15
    assert np.isin((boards > 0).sum(1), (shipped > 0).sum(1)).all()
    given = [LOOSE, "1..4|..12|21..|.3.."]
    env = make(source=pool_of(given))
    for index, board in enumerate(given):
        assert env.reset(options={"index": index})[0].tolist() == parse_board(board).tolist()
    assert len({env.reset(seed=seed)[0].tobytes() for seed in range(20)}) == 2


def test_what_is_rendered():
    env = make(source=pool_of([LOOSE]))
    env.reset(seed=0)
    assert env._state.view(0).last is None
    env.step(4 * 4 + 3)  # right, not definite
    env.step(3 * 4 + 3)  # definite
    view = env._state.view(0)
    assert np.flatnonzero(view.givens).tolist() == [0, 6, 9, 15]
    assert view.order.tolist() == [0, 0, 0, 2, 1] + [0] * 11
    assert np.flatnonzero(view.guessed).tolist() == [4] and view.last == 3
    np.testing.assert_array_equal(view.definite, env.definite)
    env.step(1 * 4 + 1)  # wrong in a definite cell
    view = env._state.view(0)
    assert np.flatnonzero(view.guessed).tolist() == [4]
    assert np.flatnonzero(view.wrong).tolist() == [1] and view.last == 1 and not view.definite.any()


def test_bad_reset_options():
    env = make(source=pool_of([LOOSE]))
    refused("outside the 1 puzzles", lambda: env.reset(options={"index": 1}), SudokuError)
    refused("'board'", lambda: env.reset(options={"board": 0}), SudokuError)
    env = make(source=shuffled_pool(4))
    rearranged = "every reset rearranges its puzzle; pass a source that is not"
    refused(rearranged, lambda: env.reset(options={"index": 0}), SudokuError)
