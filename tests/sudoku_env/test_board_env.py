import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env, data_equivalence

from sudoku_env.board import SIZES, geometry, parse_board
from sudoku_env.errors import BoardError
from sudoku_env.logic import forced_digits

ID = "sudoku_env:Sudoku-v0"
LOOSE = "1...|..3.|.1..|...2"


def make(**arguments):
    return gymnasium.make(ID, disable_env_checker=True, **arguments).unwrapped


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("arguments", [{"size": size} for size in SIZES] + [{"size": 4, "boards": [LOOSE]}])
def test_gymnasium_checker_has_nothing_to_say(arguments):
    check_env(gymnasium.make(ID, **arguments).unwrapped)


def test_rewards_by_hand():
    env = make(size=4, boards=[LOOSE])
    obs, info = env.reset(seed=0)
    board, solution = obs.reshape(-1), info["solution"]
    assert board.tolist() == parse_board(LOOSE).tolist()
    np.testing.assert_array_equal(info["forced"], forced_digits(board) > 0)
    loose = int(np.flatnonzero((board == 0) & (info["forced"] == 0))[0])
    obs, reward, terminated, truncated, info = env.step(loose * 4 + solution[loose] - 1)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert obs.reshape(-1)[loose] == solution[loose]
    forced = int(np.flatnonzero(info["forced"])[0])
    assert env.step(forced * 4 + solution[forced] - 1)[1:3] == (1.0, False)


def test_a_wrong_digit_ends_it():
    env = make(size=4, boards=[LOOSE])
    _, info = env.reset(seed=0)
    right = np.arange(16) * 4 + info["solution"] - 1
    wrong = np.setdiff1d(np.flatnonzero(info["action_mask"]), right)[0]
    obs, reward, terminated, _, info = env.step(wrong)
    assert (reward, terminated) == (0.0, True)
    assert info["error"] and not info["illegal"] and not info["forced"].any()
    assert obs.reshape(-1)[wrong // 4] == wrong % 4 + 1


@pytest.mark.parametrize("size", SIZES)
def test_action_mask_against_a_slow_reference(size):
    env = make(size=size)
    obs, info = env.reset(seed=1)
    board = obs.reshape(-1)
    expected = [
        int(board[cell] == 0 and digit not in board[geometry(size).peers[cell]])
        for cell in range(size * size)
        for digit in range(1, size + 1)
    ]
    assert info["action_mask"].dtype == np.int8
    assert info["action_mask"].tolist() == expected
    assert info["action_mask"][env.action_space.sample(info["action_mask"])] == 1


def test_actions_outside_the_mask_change_nothing():
    env = make(size=4, boards=[LOOSE], illegal_reward=-2.0)
    for action in (0, 1, 4):  # a given rewritten, a given changed, a clash with it
        obs, _ = env.reset(seed=0)
        after, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == (-2.0, True, False)
        assert info["illegal"] and not info["error"] and info["steps"] == 0
        np.testing.assert_array_equal(after, obs)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(gymnasium.error.InvalidAction, match="64"):
        env.step(64)


@pytest.mark.parametrize("size", SIZES)
def test_forced_cells_first_earn_one_each(size):
    env = make(size=size)
    obs, info = env.reset(seed=2)
    blanks, total, terminated = int((obs == 0).sum()), 0.0, False
    while not terminated:
        cell = int(np.flatnonzero(info["forced"])[0])
        obs, reward, terminated, _, info = env.step(cell * size + info["solution"][cell] - 1)
        total += reward
    assert total == blanks and not info["error"]
    assert obs.reshape(-1).tolist() == info["solution"].tolist()
    assert not info["action_mask"].any()


def test_seeds_pickle_and_spec():
    env = gymnasium.make(ID, size=6, clues=(16, 18))
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert data_equivalence(env.reset(seed=3), again.reset(seed=3), exact=True)
    twin = pickle.loads(pickle.dumps(env.unwrapped))
    assert data_equivalence(env.reset(), twin.reset(), exact=True)
    assert data_equivalence(env.step(5), twin.step(5), exact=True)
    clues = {int((env.reset()[0] > 0).sum()) for _ in range(30)}
    assert clues == {16, 17, 18}


def test_boards_are_drawn_or_picked():
    boards = [LOOSE, "1..4|..12|21..|.3.."]
    env = make(size=4, boards=boards)
    for index, board in enumerate(boards):
        assert env.reset(options={"index": index})[0].reshape(-1).tolist() == parse_board(board).tolist()
    assert len({env.reset(seed=seed)[0].tobytes() for seed in range(20)}) == 2


@pytest.mark.parametrize("size", SIZES)
def test_rendering(size):
    for mode in ("ansi", "rgb_array"):
        env = make(size=size, render_mode=mode)
        env.reset(seed=0)
        drawn = env.render()
        assert isinstance(drawn, str) if mode == "ansi" else drawn.shape[2] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 5}, "size 5"),
        ({"size": 4, "boards": []}, "boards is empty"),
        ({"size": 4, "boards": [LOOSE], "clues": 4}, "clues 4 has no effect"),
        ({"size": 4, "boards": [LOOSE, "." * 16]}, "board 1 has more than one solution"),
        ({"size": 4, "boards": ["11.............."]}, "board 0 has no solution"),
        ({"size": 4, "boards": ["1234341221434321"]}, "board 0 has no blank"),
        ({"size": 9, "boards": [LOOSE]}, "81 cells"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(BoardError, match=message):
        make(**arguments)
