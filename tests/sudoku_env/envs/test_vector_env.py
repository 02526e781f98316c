import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sudoku_env import PromptPool, SudokuUnmaskVectorEnv, SudokuVectorEnv, build_prompt, default_puzzles, parse_board
from sudoku_env.errors import SudokuError, TokenLayoutError
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.environments import BOARD, UNMASK
from tests.sudoku_env.helpers.sources import fixed_pool, pool_of, shuffled_pool

LOOSE = "1...|..3.|.1..|...2"
SECOND = "1..4|..12|21..|.3.."
PROMPTS = [build_prompt(parse_board(LOOSE), "compact"), build_prompt(parse_board(SECOND), "short")]
CASES = {
    "boards": (BOARD, {"source": shuffled_pool(4)}),
    "dead ends": (BOARD, {"source": shuffled_pool(4), "end_on": "dead_end", "illegal_reward": -3.0}),
    "given boards": (BOARD, {"source": pool_of([LOOSE, SECOND])}),
    "tokens": (UNMASK, {"source": fixed_pool(4)}),
    "given prompts": (UNMASK, {"source": PromptPool(PROMPTS), "lam": 0.25, "illegal_reward": -3.0}),
    "sets": (UNMASK, {"source": fixed_pool(4), "tokens_per_step": 3}),
    "corrected sets": (UNMASK, {"source": PromptPool(PROMPTS), "tokens_per_step": 4, "on_error": "correct"}),
}
both_kinds = pytest.mark.parametrize("name", CASES)


def vector(name, count=5, **more):
    env_id, arguments = CASES[name]
    made = gymnasium.make_vec(env_id, num_envs=count, vectorization_mode="vector_entry_point", **(arguments | more))
    assert isinstance(made, SudokuVectorEnv | SudokuUnmaskVectorEnv)
    return made


def singles(name, count=5, **more):
    env_id, arguments = CASES[name]
    return [lambda: gymnasium.make(env_id, disable_env_checker=True, **(arguments | more)) for _ in range(count)]


def some_actions(envs, rng):
    """The right token or digit mostly, else anything in the action space."""
    actions = envs.action_space.sample()
    for row in np.flatnonzero(rng.random(envs.num_envs) < 0.85):
        if isinstance(envs, SudokuVectorEnv):
            blank = np.flatnonzero(envs.action_masks()[row].reshape(16, 4).any(1))
            if len(blank):
                cell = rng.choice(blank)
                actions[row] = cell * 4 + envs.solutions[row, cell] - 1
        elif len(masked := np.flatnonzero(envs.action_masks()[row, : envs.max_gen_length])):
            pairs = actions[row].reshape(-1, 2)
            positions = rng.permutation(masked)[: len(pairs)]
            pairs[: len(positions)] = [right_pair(envs.layouts[row], position) for position in positions]
            pairs[len(positions) :, 0] = -1
    return actions


def right_pair(layout, position):
    cells = layout.cell_positions.tolist()
    return position, layout.solution_ids[cells.index(position)] if position in cells else 9


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.value)
@both_kinds
def test_the_same_as_gymnasiums_vector_of_single_environments(name, mode):
    """Observations, rewards, ends and infos with their masks, final ones included, of a long roll-out."""
    ours = vector(name, autoreset_mode=mode)
    theirs = SyncVectorEnv(singles(name), autoreset_mode=mode)
    assert ours.metadata == theirs.metadata
    for space in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
        assert getattr(ours, space) == getattr(theirs, space)
    rng = np.random.default_rng(0)
    ours.action_space.seed(1)
    ended = 0
    for seed in (3, None, [5, None, 9, 5, 0]):
        assert data_equivalence(ours.reset(seed=seed), theirs.reset(seed=seed), exact=True)
        for _ in range(25):
            actions = some_actions(ours, rng)
            one, two = ours.step(actions.copy()), theirs.step(actions)
            assert data_equivalence(one, two, exact=True)
            over = one[2]
            ended += int(over.sum())
            if mode is AutoresetMode.DISABLED and over.any():
                one, two = (envs.reset(options={"reset_mask": over.copy()}) for envs in (ours, theirs))
                assert data_equivalence(one, two, exact=True)
    assert ended > 20


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda envs: pickle.loads(pickle.dumps(envs))])
@both_kinds
def test_copies_go_on_alike(name, duplicate):
    ours = vector(name)
    rng = np.random.default_rng(3)
    ours.reset(seed=0)
    ours.step(some_actions(ours, rng))
    twin = duplicate(ours)
    for _ in range(20):
        actions = some_actions(ours, rng)
        assert data_equivalence(ours.step(actions), twin.step(actions), exact=True)
    assert data_equivalence(ours.reset(), twin.reset(), exact=True)


@pytest.mark.parametrize("name", ["boards", "tokens"])
def test_spec_round_trip(name):
    ours = vector(name, autoreset_mode="SameStep")
    again = gymnasium.make_vec(ours.spec)
    assert type(again) is type(ours) and again.num_envs == 5
    assert again.metadata == ours.metadata and again.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert data_equivalence(ours.reset(seed=1), again.reset(seed=1), exact=True)
    assert type(gymnasium.make_vec(CASES[name][0], num_envs=2)) is type(ours)
    sync = gymnasium.make_vec(CASES[name][0], num_envs=2, vectorization_mode="sync", **CASES[name][1])
    assert isinstance(sync, SyncVectorEnv)


def test_unseeded_and_replaced_generators():
    assert not data_equivalence(vector("boards").reset(), vector("boards").reset())
    one, two = vector("boards"), vector("boards")
    for envs in (one, two):
        envs.reset(seed=1)
        envs.np_random = np.random.default_rng(4)
    assert data_equivalence(one.reset(), two.reset(), exact=True)
    assert not data_equivalence(one.reset(), one.reset())


def test_a_partial_seeded_reset_leaves_the_other_streams_alone():
    one, two = (vector("boards", autoreset_mode="Disabled") for _ in range(2))
    mask = np.array([True, False, False, True, False])
    for envs in (one, two):
        envs.reset(seed=1)
    one.reset(seed=70, options={"reset_mask": mask})
    after, expected = one.reset()[0], two.reset()[0]
    np.testing.assert_array_equal(after[~mask], expected[~mask])
    assert (after[mask] != expected[mask]).any()


def test_legal_sampling():
    envs = vector("dead ends", count=64, source=shuffled_pool(6))
    _, infos = envs.reset(seed=0)
    envs.action_space.seed(5)
    first = envs.sample_actions()
    assert first.shape == (64,) and first.dtype == np.int64
    assert infos["action_mask"][np.arange(64), first].all()
    envs.action_space.seed(5)
    np.testing.assert_array_equal(envs.sample_actions(), first)
    for _ in range(30):
        terminated = envs.step(envs.sample_actions())[2]
        assert not envs.step(envs.sample_actions())[4]["illegal"].any()
    assert terminated.shape == (64,)


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
@both_kinds
def test_frames_are_those_of_the_single_environments(name, mode):
    ours = vector(name, count=2, render_mode=mode)
    alone = [make() for make in singles(name, count=2, render_mode=mode)]
    refused("reset", ours.render, gymnasium.error.ResetNeeded)
    ours.reset(seed=3)
    ours.action_space.seed(0)
    actions = some_actions(ours, np.random.default_rng(0))
    for i, env in enumerate(alone):
        env.reset(seed=3 + i)
        env.step(actions[i])
    ours.step(actions)
    frames = ours.render()
    assert isinstance(frames, tuple) and len(frames) == 2
    assert all(np.array_equal(frame, env.render()) for frame, env in zip(frames, alone, strict=True))


@both_kinds
def test_without_a_render_mode_there_are_no_frames(name):
    silent = vector(name, count=2)
    silent.reset(seed=0)
    assert silent.render() is None


@both_kinds
def test_actions_are_checked_before_anything_happens(name):
    envs, twin = vector(name, count=3), vector(name, count=3)
    envs.reset(seed=0)
    twin.reset(seed=0)
    good = envs.action_space.sample()
    below, above = good.copy(), good.copy()
    below[1], above[1] = -1, 10_000
    refused("environment 1 is outside", lambda: envs.step(below), gymnasium.error.InvalidAction)
    refused("environment 1 is outside", lambda: envs.step(above), gymnasium.error.InvalidAction)
    refused("expected integers of shape", lambda: envs.step(good[:2]), gymnasium.error.InvalidAction)
    refused("expected integers of shape", lambda: envs.step(good.astype(float)), gymnasium.error.InvalidAction)
    assert data_equivalence(envs.step(good.astype(np.int32)), twin.step(good), exact=True)


def test_an_environment_that_resets_ignores_its_action():
    envs = vector("given boards", count=2)
    envs.reset(seed=0, options={"index": 0})
    assert envs.step(np.array([0, 1 * 4 + 2]))[2].tolist() == [True, False]  # a given is rewritten; a right 3
    obs, rewards, terminated, _, infos = envs.step(np.array([-5, 3 * 4 + 3]))
    assert rewards.tolist() == [0.0, 1.0] and not terminated.any()
    assert infos["steps"].tolist() == [0, 2] and not infos["illegal"].any()
    assert obs[0].tobytes() in {parse_board(LOOSE).tobytes(), parse_board(SECOND).tobytes()}


@both_kinds
def test_resets_come_first(name):
    envs = vector(name, count=2, autoreset_mode="Disabled")
    actions = np.zeros(envs.action_space.shape, dtype=np.int64)
    for ask in (lambda: envs.step(actions), lambda: envs.definite, lambda: envs.solutions, envs.action_masks):
        refused("episode 0", ask, gymnasium.error.ResetNeeded)
    envs.reset(seed=0, options={"reset_mask": np.array([True, False])})
    refused("episode 1", lambda: envs.step(actions), gymnasium.error.ResetNeeded)
    envs.reset(seed=0)
    while not (over := envs.step(actions)[2]).any():
        pass
    refused(f"episode {np.argmax(over)} is over", lambda: envs.step(actions), gymnasium.error.ResetNeeded)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": [1, 2]}, "2 seeds for 5 environments"),
        ({"options": {"reset_mask": [True] * 5}}, "reset_mask must be a bool array"),
        ({"options": {"reset_mask": np.ones(4, dtype=bool)}}, "reset_mask must be"),
        ({"options": {"reset_mask": np.zeros(5, dtype=bool)}}, "reset_mask must be"),
        ({"options": {"index": 2}}, "index 2 is outside the 2 puzzles"),
        ({"options": {"index": "1"}}, "index must be a whole number, got '1'"),
        ({"options": {"mask": 2}}, "'mask'"),
    ],
)
@pytest.mark.parametrize("name", ["given boards", "given prompts"])
def test_bad_resets(name, arguments, message):
    refused(message, lambda: vector(name).reset(**arguments), SudokuError)


def test_options_are_left_as_they_were():
    options = {"reset_mask": np.ones(5, dtype=bool), "index": 1}
    vector("given boards").reset(options=options)
    assert options.keys() == {"reset_mask", "index"}


def test_bad_arguments():
    refused("num_envs must be at least 1", lambda: SudokuVectorEnv(0), SudokuError)
    refused("Sometimes", lambda: SudokuVectorEnv(2, autoreset_mode="Sometimes"))
    refused("puzzle", lambda: SudokuUnmaskVectorEnv(2, puzzle=LOOSE), TypeError)


def test_responses_of_two_sizes_do_not_mix():
    six = build_prompt(default_puzzles(6).boards[0], "compact")
    envs = SudokuUnmaskVectorEnv(2, source=PromptPool([PROMPTS[0], six]))
    refused("4×4", lambda: envs.reset(options={"index": 1}), TokenLayoutError)
