"""The checks pass on the package's environments, and each of them finds the faults that it is there for."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sudoku_env import testing
from sudoku_env.envs.board_env import SudokuEnv
from sudoku_env.envs.sources import PromptPool, PuzzlePool
from sudoku_env.envs.unmask_env import UnmaskEnv
from sudoku_env.envs.unmask_vector_env import SudokuUnmaskVectorEnv
from sudoku_env.envs.vector_env import SudokuVectorEnv
from sudoku_env.envs.wrappers import FlatUnmask, FlatUnmaskVector
from sudoku_env.generator import generate
from tests.sudoku_env.helpers.sources import fixed_pool, pool_of, shuffled_pool

BOARDS = ["1...|..3.|.1..|...2", "1..4|..12|21..|.3.."]
PROMPTS = ["sudoku 4x4 1.....3..1.....2", "sudoku 4x4 1..4..1221...3.."]
SEVERAL = PuzzlePool(generate(30, size=4, clues=(0, 4), answers="any", seed=0))
ANY = {"source": SEVERAL, "answers": "any"}
CORRECTED = {"source": PromptPool(PROMPTS), "tokens_per_step": 3, "on_error": "correct"}


def play_well(env, info, rng):
    """Now and then any legal action, else the right digit in a blank cell of `Sudoku-v0`."""
    if rng.random() < 0.1:
        return testing.legal_action(env, info, rng)
    size, solution = env.unwrapped.size, env.unwrapped.solution
    right = np.arange(size**2) * size + solution - 1
    return rng.choice(right[info["action_mask"][right] == 1])


def right_token(env, info, rng):
    """A masked position with the solution's digit, or with the end token behind the map."""
    layout = env.unwrapped.layout
    position = rng.choice(np.flatnonzero(info["masked"]))
    cell = np.flatnonzero(layout.cell_positions == position)
    if not len(cell):
        return np.array([position, env.unwrapped.tokenizer.eos_token_id])
    return np.array([position, layout.digit_ids[info["solution"][cell[0]] - 1]])


class TestSudoku(testing.VectorEnvConformance):
    def make(self, **arguments):
        return gymnasium.make("sudoku_env:Sudoku-v0", source=shuffled_pool(4), **arguments)

    def make_vec(self, num_envs):
        return gymnasium.make_vec("sudoku_env:Sudoku-v0", num_envs, source=shuffled_pool(4))

    def act(self, env, info, rng):
        return play_well(env, info, rng)


class TestSudokuByRandomPlay(testing.VectorEnvConformance):
    """Up to a dead end, with final observations in the same step."""

    def make(self, **arguments):
        return gymnasium.make("sudoku_env:Sudoku-v0", source=shuffled_pool(6), end_on="dead_end", **arguments)

    def make_vec(self, num_envs):
        return SudokuVectorEnv(
            num_envs, source=shuffled_pool(6), end_on="dead_end", autoreset_mode=AutoresetMode.SAME_STEP
        )


class TestSudokuOfGivenBoards(testing.VectorEnvConformance):
    def make(self, **arguments):
        return gymnasium.make("sudoku_env:Sudoku-v0", source=pool_of(BOARDS), **arguments)

    def make_vec(self, num_envs):
        return SudokuVectorEnv(num_envs, source=pool_of(BOARDS), autoreset_mode=AutoresetMode.DISABLED)


def unmask_well(env, info, rng):
    """Now and then any legal action, else a right token."""
    return testing.legal_action(env, info, rng) if rng.random() < 0.1 else right_token(env, info, rng)


class TestUnmask(testing.VectorEnvConformance):
    def make(self, **arguments):
        return gymnasium.make("sudoku_env:SudokuUnmask-v0", source=fixed_pool(4), **arguments)

    def make_vec(self, num_envs):
        return gymnasium.make_vec("sudoku_env:SudokuUnmask-v0", num_envs, source=fixed_pool(4))

    def act(self, env, info, rng):
        return unmask_well(env, info, rng)


class TestUnmaskOfGivenPrompts(testing.VectorEnvConformance):
    def make(self, **arguments):
        return gymnasium.make("sudoku_env:SudokuUnmask-v0", source=PromptPool(PROMPTS), **arguments)

    def make_vec(self, num_envs):
        return SudokuUnmaskVectorEnv(num_envs, source=PromptPool(PROMPTS), autoreset_mode=AutoresetMode.SAME_STEP)


class TestUnmaskOfSets(testing.VectorEnvConformance):
    def make(self, **arguments):
        return gymnasium.make("sudoku_env:SudokuUnmask-v0", source=fixed_pool(4), tokens_per_step=4, **arguments)

    def make_vec(self, num_envs):
        return gymnasium.make_vec("sudoku_env:SudokuUnmask-v0", num_envs, source=fixed_pool(4), tokens_per_step=4)


class TestUnmaskOfSetsCorrected(testing.VectorEnvConformance):
    """Random tokens are replaced by right ones, so that episodes are long and end with less than k masks."""

    def make(self, **arguments):
        return gymnasium.make("sudoku_env:SudokuUnmask-v0", **CORRECTED, **arguments)

    def make_vec(self, num_envs):
        return SudokuUnmaskVectorEnv(num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **CORRECTED)


class TestUnmaskOfAnyAnswer(testing.VectorEnvConformance):
    def make(self, **arguments):
        return gymnasium.make("sudoku_env:SudokuUnmask-v0", tokens_per_step=2, **ANY, **arguments)

    def make_vec(self, num_envs):
        return SudokuUnmaskVectorEnv(num_envs, tokens_per_step=2, autoreset_mode=AutoresetMode.SAME_STEP, **ANY)

    def act(self, env, info, rng):
        """Now and then any legal action, else the tokens of a solution."""
        if rng.random() < 0.1:
            return testing.legal_action(env, info, rng)
        first = right_token(env, info, rng)
        rest = info["masked"].copy()
        rest[first[0]] = 0
        return np.array([first, right_token(env, info | {"masked": rest}, rng) if rest.any() else [-1, 0]])


class TestSudokuOfAnyAnswer(testing.VectorEnvConformance):
    def make(self, **arguments):
        return gymnasium.make("sudoku_env:Sudoku-v0", **ANY, **arguments)

    def make_vec(self, num_envs):
        return gymnasium.make_vec("sudoku_env:Sudoku-v0", num_envs, **ANY)

    def act(self, env, info, rng):
        return play_well(env, info, rng)


class TestFlatUnmask(testing.VectorEnvConformance):
    def make(self, **arguments):
        return FlatUnmask(
            gymnasium.make("sudoku_env:SudokuUnmask-v0", source=fixed_pool(4), **arguments), observation="compact"
        )

    def make_vec(self, num_envs):
        envs = SudokuUnmaskVectorEnv(num_envs, source=fixed_pool(4), autoreset_mode=AutoresetMode.SAME_STEP)
        return FlatUnmaskVector(envs, observation="compact")

    def act(self, env, info, rng):
        if rng.random() < 0.1:
            return testing.legal_action(env, info, rng)
        return env.actions.encode(right_token(env, info, rng))


@pytest.mark.parametrize("mode", AutoresetMode)
def test_vectors_of_gymnasium_pass(mode):
    def make(**arguments):
        return gymnasium.make("sudoku_env:Sudoku-v0", source=pool_of(BOARDS), **arguments)

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


class SeedIgnored(Sound):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=int(np.random.default_rng().integers(1000)))


class OneStart(Sound):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return super().reset(seed=0)


class SecondStartRandom(Sound):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=int(np.random.default_rng().integers(1000)) if seed is None else seed)


class StaleInfoMask(Sound):
    def step(self, action):
        before = self.action_masks().astype(np.int8)
        *result, info = super().step(action)
        return *result, info | {"action_mask": before}


class StaleMask(Sound):
    """Both masks are those of the episode's start."""

    def shown(self, obs, info):
        self.stale = info["action_mask"].copy() if info["steps"] == 0 else self.stale
        return obs, info | {"action_mask": self.stale.copy()}

    def action_masks(self):
        return self.stale.astype(bool)


class LaxMask(Sound):
    """Every digit counts as legal in a blank cell, but the step does not think so."""

    def shown(self, obs, info):
        self.lax = np.repeat(obs.reshape(-1) == 0, 4)
        return obs, info | {"action_mask": self.lax.astype(np.int8)}

    def action_masks(self):
        return self.lax.copy()


class NoInfoMask(Sound):
    def shown(self, obs, info):
        del info["action_mask"]
        return obs, info


class FloatMask(Sound):
    def action_masks(self):
        return super().action_masks().astype(float)


class NoMethod(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}


class SharedObservation(Sound):
    def shown(self, obs, info):
        self.buffer = getattr(self, "buffer", obs)
        self.buffer[:] = obs
        return self.buffer, info


class ExposedState(Sound):
    """Every observation is a new array, but the next one is made from it."""

    def shown(self, obs, info):
        if info["steps"] == 0:
            self.last = obs
        else:
            self.last = np.where(obs != self.true, obs, self.last)
        self.true = obs.copy()
        return self.last, info


class TruncatedAtEveryEnd(Sound):
    def step(self, action):
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, terminated, info


class NumpyFlags(Sound):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, np.bool_(terminated), truncated, info


class NanReward(Sound):
    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, float("nan"), *rest


class NoDeadEnd(Sound):
    """Goes on where nothing is legal any more."""

    def step(self, action):
        obs, reward, self.dead, truncated, info = super().step(action)
        return obs, reward, False, truncated, info

    def action_masks(self):
        return super().action_masks() & (not getattr(self, "dead", False))


class StepAfterEnd(Sound):
    def step(self, action):
        if getattr(self, "ended", False):
            return np.zeros((4, 4), np.uint8), 0.0, True, False, {}
        obs, reward, self.ended, truncated, info = super().step(action)
        return obs, reward, self.ended, truncated, info

    def reset(self, *, seed=None, options=None):
        self.ended = False
        return super().reset(seed=seed, options=options)


class IllegalRaises(Sound):
    def step(self, action):
        if not self.action_masks()[action]:
            raise ValueError("that is illegal")
        return super().step(action)


class IllegalWrites(Sound):
    def shown(self, obs, info):
        return obs + np.uint8(info["illegal"]), info


class IllegalUnsaid(Sound):
    def shown(self, obs, info):
        return obs, info | {"illegal": False}


class NotPicklable(Sound):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.hook = lambda: None


class ForgetfulCopy(Sound):
    def __setstate__(self, state):
        self.__init__()
        super().reset(seed=99)

    def __getstate__(self):
        return {}


class NoFrame(Sound):
    def render(self):
        return None if self.render_mode == "rgb_array" else super().render()


class FrozenFrame(Sound):
    def render(self):
        return "a board" if self.render_mode == "ansi" else super().render()


class OutsideSpace(Sound):
    def shown(self, obs, info):
        return obs + np.uint8(200), info


class FloatObservation(Sound):
    def shown(self, obs, info):
        return obs.astype(np.float64), info


FAULTS = [
    (SeedIgnored, testing.check_seeding, r"the seed is ignored: reset\(seed=3\) starts two"),
    (OneStart, testing.check_seeding, "the seed is ignored: 20 seeds give one and the same"),
    (SecondStartRandom, testing.check_seeding, r"the seed is ignored: a later reset\(\) after reset\(seed=3\)"),
    (StaleInfoMask, testing.check_masks, r"stale mask: info\['action_mask'\] differs from action_masks"),
    (StaleMask, testing.check_masks, "stale mask: .* was just taken and is still legal|illegal although the mask"),
    (LaxMask, testing.check_masks, "wrong mask: .* is illegal although the mask allows it"),
    (NoInfoMask, testing.check_masks, "info has no mask"),
    (FloatMask, testing.check_masks, "dtype float64 where bool"),
    (NoMethod, testing.check_masks, r"no method action_masks"),
    (SharedObservation, testing.check_no_sharing, r"shared buffer: result\[0\]\[0\] of step 1 is .* of reset again"),
    (ExposedState, testing.check_no_sharing, "writing into an array that an earlier step returned changes"),
    (TruncatedAtEveryEnd, testing.check_termination, "truncated is set at step .* use terminated"),
    (NumpyFlags, testing.check_termination, "must be bool"),
    (NanReward, testing.check_termination, "no finite float"),
    (NoDeadEnd, testing.check_termination, "no action is legal although the episode goes on"),
    (StepAfterEnd, testing.check_termination, "a step after the end is accepted"),
    (IllegalRaises, testing.check_illegal_actions, "raised, not punished: ValueError"),
    (IllegalWrites, testing.check_illegal_actions, "illegal action .* changes the state"),
    (IllegalUnsaid, testing.check_illegal_actions, r"info\['illegal'\] is not set"),
    (NotPicklable, testing.check_pickle, "no pickled copy can be made"),
    (ForgetfulCopy, testing.check_pickle, "a pickled copy goes on differently"),
    (NoFrame, testing.check_render, "mode 'rgb_array': render.. gives no uint8"),
    (FrozenFrame, testing.check_render, "mode 'ansi': all pictures of an episode are the same"),
    (Sound, testing.check_spec, "env.spec is None"),
    (OutsideSpace, testing.check_gymnasium, "not within the observation space"),
    (FloatObservation, testing.check_gymnasium, "not within the observation space"),
]


class SetsWithRepeats(UnmaskEnv):
    """A position that comes twice is written once."""

    def __init__(self):
        super().__init__(source=fixed_pool(4), tokens_per_step=3)

    def step(self, action):
        _, first = np.unique(action[:, 0], return_index=True)
        return super().step(np.array([row if number in first else [-1, 0] for number, row in enumerate(action)]))


def test_sets_whose_rows_begin_alike_must_be_illegal():
    with pytest.raises(AssertionError, match=r"(?s)wrong mask: .* is legal although the mask forbids it"):
        testing.check_masks(SetsWithRepeats)
    testing.check_masks(lambda: UnmaskEnv(source=fixed_pool(4), tokens_per_step=3))


@pytest.mark.parametrize(("faulty", "check", "message"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_faults_are_found(faulty, check, message):
    with pytest.raises(AssertionError, match=message):
        check(faulty)
    if faulty is not Sound:
        check(Sound)


def test_a_time_limit_may_truncate():
    def make():
        return gymnasium.make("sudoku_env:Sudoku-v0", source=shuffled_pool(6), end_on="dead_end", max_episode_steps=2)

    testing.check_termination(make)


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

    with pytest.raises(AssertionError, match="made from the spec starts differently"):
        testing.check_spec(make)


def make_sound(**arguments):
    return SudokuEnv(source=pool_of(BOARDS), **arguments)


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
    with pytest.raises(AssertionError, match=message):
        check(faulty, make_sound, play_well)
    check(Faulty, make_sound, play_well)


def test_the_classes_ask_for_what_they_need():
    with pytest.raises(NotImplementedError, match="define make"):
        testing.EnvConformance().test_masks()
    with pytest.raises(NotImplementedError, match="define make_vec"):
        type("Half", (testing.VectorEnvConformance,), {"make": lambda self: make_sound()})().test_vector_no_sharing()


def test_the_module_needs_no_pytest():
    code = "import sys, sudoku_env.testing; print('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
