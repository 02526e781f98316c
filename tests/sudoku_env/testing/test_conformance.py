"""The checks pass on the package's environments, and each of them finds the faults that it is there for."""

import subprocess
import sys
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sudoku_env import FlatUnmask, FlatUnmaskVector, PromptPool, PuzzlePool, SudokuEnv, UnmaskEnv, generate, testing
from sudoku_env.board import SIZES
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.environments import BOARD, NONE, UNMASK, right_at
from tests.sudoku_env.helpers.sources import fixed_pool, pool_of, shuffled_pool

BOARDS = ["1...|..3.|.1..|...2", "1..4|..12|21..|.3.."]
PROMPTS = ["sudoku 4x4 1.....3..1.....2", "sudoku 4x4 1..4..1221...3.."]
SEVERAL = PuzzlePool(generate(30, size=4, clues=(0, 4), answers="any", seed=0))
FEW = PuzzlePool(generate(8, size=4, clues=(0, 5), answers="any", seed=0))
ANY = {"source": SEVERAL, "answers": "any"}
CORRECTED = {"source": PromptPool(PROMPTS), "tokens_per_step": 3, "on_error": "correct"}


def mostly(right):
    """Now and then any legal action, else a right one."""

    def act(env, info, rng):
        return testing.legal_action(env, info, rng) if rng.random() < 0.1 else right(env, info, rng)

    return act


@mostly
def play_well(env, info, rng):
    """The right digit in a blank cell of `Sudoku-v0`."""
    size, solution = env.unwrapped.size, env.unwrapped.solution
    right = np.arange(size**2) * size + solution - 1
    return rng.choice(right[info["action_mask"][right] == 1])


def right_tokens(env, info, rng, count):
    """The tokens of a solution at so many masked positions, as there are."""
    positions = rng.permutation(np.flatnonzero(info["masked"]))[:count]
    return np.array([*(right_at(env.unwrapped, position) for position in positions), *[NONE] * count][:count])


unmask_well = mostly(lambda env, info, rng: right_tokens(env, info, rng, 1)[0])
unmask_two_well = mostly(partial(right_tokens, count=2))
unmask_flat_well = mostly(lambda env, info, rng: env.actions.encode(right_tokens(env, info, rng, 1)[0]))


def conformance(name, act=testing.legal_action, mode=AutoresetMode.NEXT_STEP, flat=False, **options):
    """The checks of an environment with some options, and of its vector in a mode."""

    class Checks(testing.VectorEnvConformance):
        def make(self, **arguments):
            env = gymnasium.make(name, **options, **arguments)
            return FlatUnmask(env, observation="compact") if flat else env

        def make_vec(self, num_envs):
            envs = gymnasium.make_vec(name, num_envs, autoreset_mode=mode, **options)
            return FlatUnmaskVector(envs, observation="compact") if flat else envs

        def act(self, env, info, rng):
            return act(env, info, rng)

    return Checks


SAME, DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
TAKE_BACK = {"source": pool_of(BOARDS), "take_back": True, "max_steps": 20}  # filled wrongly and taken back at random
GUARDED = {**ANY, "source": FEW, "guard": "rules", "tokens_per_step": 2}

TestSudoku = conformance(BOARD, play_well, source=shuffled_pool(4))
TestSudokuUpToADeadEnd = conformance(BOARD, mode=SAME, source=shuffled_pool(6), end_on="dead_end")
TestSudokuOfGivenBoards = conformance(BOARD, mode=DISABLED, source=pool_of(BOARDS))
TestSudokuOfAnyAnswer = conformance(BOARD, play_well, **ANY)
TestUnmask = conformance(UNMASK, unmask_well, source=fixed_pool(4))
TestUnmaskOfGivenPrompts = conformance(UNMASK, mode=SAME, source=PromptPool(PROMPTS))
TestUnmaskOfSets = conformance(UNMASK, source=fixed_pool(4), tokens_per_step=4)
# Random tokens are replaced by right ones, so that episodes are long and end with less than k masks.
TestUnmaskOfSetsCorrected = conformance(UNMASK, mode=SAME, **CORRECTED)
TestUnmaskOfAnyAnswer = conformance(UNMASK, unmask_two_well, SAME, tokens_per_step=2, **ANY)
TestUnmaskGuarded = conformance(UNMASK, **GUARDED)
TestFlatUnmask = conformance(UNMASK, unmask_flat_well, SAME, flat=True, source=fixed_pool(4))
TestTakeBack = conformance(UNMASK, **TAKE_BACK)
TestTakeBackOfSets = conformance(UNMASK, mode=SAME, tokens_per_step=3, **TAKE_BACK)
TestTakeBackFlat = conformance(UNMASK, mode=DISABLED, flat=True, **TAKE_BACK)


@pytest.mark.parametrize("name", [BOARD, UNMASK])
@pytest.mark.parametrize("size", SIZES)
def test_boards_of_all_sizes_pass_gymnasiums_checker_and_are_drawn(name, size):
    make = partial(gymnasium.make, name, source=fixed_pool(size))
    testing.check_gymnasium(make)
    testing.check_render(make)


@pytest.mark.parametrize(("name", "own"), [(BOARD, ["definite", "solution"]), (UNMASK, ["state", "solution"])])
def test_what_is_read_of_an_environment_is_the_readers_own(name, own):
    one = gymnasium.make(name, source=pool_of(BOARDS)).unwrapped
    two = gymnasium.make_vec(name, 2, source=pool_of(BOARDS))
    for env, names in ((one, own), (two, ["definite", "solutions"])):
        env.reset(seed=0)
        for ask in (env.action_masks, *(partial(getattr, env, each) for each in names)):
            before = ask().copy()
            ask()[...] = 1
            np.testing.assert_array_equal(ask(), before)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_vectors_of_gymnasium_pass(mode):
    make = partial(gymnasium.make, BOARD, source=pool_of(BOARDS))

    def make_vec(num_envs):
        return SyncVectorEnv([make] * num_envs, autoreset_mode=mode)

    testing.check_vector_matches_single(make_vec, make, play_well)
    testing.check_vector_no_sharing(make_vec, make, play_well)


class Sound(SudokuEnv):
    """What the faulty environments below differ from."""

    def __init__(self, **arguments):
        super().__init__(source=shuffled_pool(4), end_on="dead_end", **arguments)

    def reset(self, *, seed=None, options=None):
        return self.shown(*super().reset(seed=seed, options=options))

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        obs, info = self.shown(obs, info)
        return obs, reward, terminated, truncated, info

    def shown(self, obs, info):
        return obs, info


def seeded(choose):
    """A reset whose seed is another."""
    return {"reset": lambda self, *, seed=None, options=None: Sound.reset(self, seed=choose(seed))}


def stepping(change):
    """A step whose observation, reward, terminated, truncated and info are changed."""
    return {"step": lambda self, action: change(*Sound.step(self, action))}


def showing(change):
    """Observation and info of every reset and step are changed."""
    return {"shown": lambda self, obs, info: change(obs, info)}


def some_seed():
    return int(np.random.default_rng().integers(1000))


def one_start(self, *, seed=None, options=None):
    Sound.reset(self, seed=seed)
    return Sound.reset(self, seed=0)


def stale_info_mask(self, action):
    before = self.action_masks().astype(np.int8)
    *result, info = Sound.step(self, action)
    return *result, info | {"action_mask": before}


def mask_of_the_start(self, obs, info):
    self.stale = info["action_mask"].copy() if info["steps"] == 0 else self.stale
    return obs, info | {"action_mask": self.stale.copy()}


def lax_mask(self, obs, info):
    """Every digit counts as legal in a blank cell, but the step does not think so."""
    self.lax = np.repeat(obs.reshape(-1) == 0, 4)
    return obs, info | {"action_mask": self.lax.astype(np.int8)}


def shared_observation(self, obs, info):
    self.buffer = getattr(self, "buffer", obs)
    self.buffer[:] = obs
    return self.buffer, info


def exposed_state(self, obs, info):
    """Every observation is a new array, but the next one is made from it."""
    self.last = obs if info["steps"] == 0 else np.where(obs != self.true, obs, self.last)
    self.true = obs.copy()
    return self.last, info


def goes_on(self, action):
    """Where nothing is legal any more."""
    obs, reward, self.dead, truncated, info = Sound.step(self, action)
    return obs, reward, False, truncated, info


def taken_after_the_end(self, action):
    if getattr(self, "ended", False):
        return np.zeros((4, 4), np.uint8), 0.0, True, False, {}
    obs, reward, self.ended, truncated, info = Sound.step(self, action)
    return obs, reward, self.ended, truncated, info


def begun_again(self, *, seed=None, options=None):
    self.ended = False
    return Sound.reset(self, seed=seed, options=options)


def raised(self, action):
    if not self.action_masks()[action]:
        raise ValueError("that is illegal")
    return Sound.step(self, action)


def hooked(self, **arguments):
    Sound.__init__(self, **arguments)
    self.hook = lambda: None


class NoMethod(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}


class ForgetfulCopy(Sound):
    def __setstate__(self, state):
        self.__init__()
        super().reset(seed=99)

    def __getstate__(self):
        return {}


def without_mask(obs, info):
    return obs, {name: value for name, value in info.items() if name != "action_mask"}


def frame(mode, picture):
    return {"render": lambda self: picture if self.render_mode == mode else Sound.render(self)}


FAULTS = [
    ("seeding", seeded(lambda seed: some_seed()), r"the seed is ignored: reset\(seed=3\) starts two"),
    ("seeding", {"reset": one_start}, "the seed is ignored: 20 seeds give one and the same"),
    ("seeding", seeded(lambda seed: some_seed() if seed is None else seed), r"a later reset\(\) after reset\(seed=3\)"),
    ("masks", {"step": stale_info_mask}, r"stale mask: info\['action_mask'\] differs from action_masks"),
    (
        "masks",
        {"shown": mask_of_the_start, "action_masks": lambda self: self.stale.astype(bool)},
        "stale mask: .* was just taken and is still legal|illegal although the mask",
    ),
    (
        "masks",
        {"shown": lax_mask, "action_masks": lambda self: self.lax.copy()},
        "wrong mask: .* is illegal although the mask allows it",
    ),
    ("masks", showing(without_mask), "info has no mask"),
    ("masks", {"action_masks": lambda self: SudokuEnv.action_masks(self).astype(float)}, "dtype float64 where bool"),
    ("masks", NoMethod, "no method action_masks"),
    ("no_sharing", {"shown": shared_observation}, r"shared buffer: result\[0\]\[0\] of step 1 is .* of reset again"),
    ("no_sharing", {"shown": exposed_state}, "writing into an array that an earlier step returned changes"),
    (
        "termination",
        stepping(lambda obs, reward, over, _, info: (obs, reward, over, over, info)),
        "truncated is set at step .* use terminated",
    ),
    ("termination", stepping(lambda obs, reward, over, *rest: (obs, reward, np.bool_(over), *rest)), "must be bool"),
    ("termination", stepping(lambda obs, _, *rest: (obs, float("nan"), *rest)), "no finite float"),
    (
        "termination",
        {
            "step": goes_on,
            "action_masks": lambda self: SudokuEnv.action_masks(self) & (not getattr(self, "dead", False)),
        },
        "no action is legal although the episode goes on",
    ),
    ("termination", {"step": taken_after_the_end, "reset": begun_again}, "a step after the end is accepted"),
    ("illegal_actions", {"step": raised}, "raised, not punished: ValueError"),
    (
        "illegal_actions",
        showing(lambda obs, info: (obs + np.uint8(info["illegal"]), info)),
        "illegal action .* changes the state",
    ),
    ("illegal_actions", showing(lambda obs, info: (obs, info | {"illegal": False})), r"info\['illegal'\] is not set"),
    ("pickle", {"__init__": hooked}, "no pickled copy can be made"),
    ("pickle", ForgetfulCopy, "a pickled copy goes on differently"),
    ("render", frame("rgb_array", None), "mode 'rgb_array': render.. gives no uint8"),
    ("render", frame("ansi", "a board"), "mode 'ansi': all pictures of an episode are the same"),
    ("spec", Sound, "env.spec is None"),
    ("gymnasium", showing(lambda obs, info: (obs + np.uint8(200), info)), "not within the observation space"),
    ("gymnasium", showing(lambda obs, info: (obs.astype(np.float64), info)), "not within the observation space"),
]
"""A check, what replaces methods of `Sound`, or an environment of its own, and what the check says."""


class SetsWithRepeats(UnmaskEnv):
    """A position that comes twice is written once."""

    def __init__(self):
        super().__init__(source=pool_of(BOARDS), tokens_per_step=3)

    def step(self, action):
        _, first = np.unique(action[:, 0], return_index=True)
        return super().step(np.array([row if number in first else [-1, 0] for number, row in enumerate(action)]))


def test_sets_whose_rows_begin_alike_must_be_illegal():
    forbidden = r"(?s)wrong mask: .* is legal although the mask forbids it"
    refused(forbidden, lambda: testing.check_masks(SetsWithRepeats), AssertionError)
    testing.check_masks(lambda: UnmaskEnv(source=pool_of(BOARDS), tokens_per_step=3))


@pytest.mark.parametrize(("name", "fault", "message"), FAULTS, ids=[f"{each[0]}: {each[2]}" for each in FAULTS])
def test_faults_are_found(name, fault, message):
    check = getattr(testing, f"check_{name}")
    faulty = fault if isinstance(fault, type) else type("Faulty", (Sound,), fault)
    refused(message, lambda: check(faulty), AssertionError)
    if fault is not Sound:
        check(Sound)


def test_a_time_limit_may_truncate():
    limited = {"source": shuffled_pool(6), "end_on": "dead_end", "max_episode_steps": 2}
    testing.check_termination(lambda: gymnasium.make(BOARD, **limited))


class Shifted(Sound):
    shift = 0

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None if seed is None else seed + self.shift)


def test_a_spec_that_forgets_something_is_found():
    gymnasium.register("Shifted-v0", entry_point=Shifted)
    testing.check_spec(lambda: gymnasium.make("Shifted-v0"))

    def make():
        env = gymnasium.make("Shifted-v0")
        env.unwrapped.shift = 1
        return env

    refused("made from the spec starts differently", lambda: testing.check_spec(make), AssertionError)


make_sound = partial(SudokuEnv, source=pool_of(BOARDS))


class Faulty(gymnasium.vector.VectorWrapper):
    def __init__(self, num_envs):
        super().__init__(SyncVectorEnv([make_sound] * num_envs))


class MaskLost(Faulty):
    def step(self, actions):
        *result, infos = self.env.step(actions)
        return *result, {key: value for key, value in infos.items() if "action_mask" not in key}


class OneSeedForAll(Faulty):
    def reset(self, *, seed=None, options=None):
        return self.env.reset(seed=None if seed is None else [seed] * self.num_envs, options=options)


class LateReset(Faulty):
    """Keeps showing the old observation in the step that resets."""

    def step(self, actions):
        obs, *result = self.env.step(actions)
        shown = np.where(self.over[:, None, None], self.last, obs) if hasattr(self, "over") else obs
        self.over, self.last = result[1].copy(), obs.copy()
        return shown, *result


class SharedRows(Faulty):
    def step(self, actions):
        obs, *result = self.env.step(actions)
        self.buffer = getattr(self, "buffer", obs)
        self.buffer[:] = obs
        return self.buffer, *result


@pytest.mark.parametrize(
    ("faulty", "check", "message"),
    [
        (MaskLost, testing.check_vector_matches_single, r"step 1, row 0 .*lacks \['action_mask'\]"),
        (OneSeedForAll, testing.check_vector_matches_single, "row . differs from the single"),
        (LateReset, testing.check_vector_matches_single, "step .*, row .* differs from the single"),
        (SharedRows, testing.check_vector_no_sharing, "shared buffer"),
    ],
)
def test_faults_of_vectors_are_found(faulty, check, message):
    refused(message, lambda: check(faulty, make_sound, play_well), AssertionError)
    check(Faulty, make_sound, play_well)


def test_the_classes_ask_for_what_they_need():
    refused("define make", lambda: testing.EnvConformance().test_masks(), NotImplementedError)
    half = type("Half", (testing.VectorEnvConformance,), {"make": lambda self: make_sound()})()
    refused("define make_vec", half.test_vector_no_sharing, NotImplementedError)


def test_the_module_needs_no_pytest():
    code = "import sys, sudoku_env.testing; print('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
