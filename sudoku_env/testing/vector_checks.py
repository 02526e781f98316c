"""Checks of a vector environment against its single version."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from sudoku_env.testing.actions import Act, Env, Make, legal_action
from sudoku_env.testing.comparison import Returned, assert_same, info_of, row_of

MakeVector = Callable[[int], VectorEnv[Any, Any, Any]]
NUM_ENVS = 3


def check_vector_matches_single(make_vec: MakeVector, make: Make, act: Act = legal_action) -> None:
    """A seeded vector roll-out equals single ones step by step, resets and infos included, in its autoreset mode.

    Args:
        make_vec: Gives a new vector environment of a number of environments, with any `AutoresetMode`.
        make: Gives a new single one.
        act: Chooses actions, for the single environments.
    """
    vector, singles = make_vec(NUM_ENVS), [make() for _ in range(NUM_ENVS)]
    assert isinstance(vector.metadata.get("autoreset_mode"), AutoresetMode), "metadata['autoreset_mode'] is missing"
    assert vector.single_action_space == singles[0].action_space, "single_action_space differs from the environment's"
    assert vector.single_observation_space == singles[0].observation_space, "single_observation_space differs"
    for when, pairs, _ in _vector_rollout(vector, singles, act, steps=40):
        for row, (expected, got) in enumerate(pairs):
            assert_same(expected, got, f"{when}, row {row} differs from the single environment", subset=True)


def check_vector_no_sharing(make_vec: MakeVector, make: Make, act: Act = legal_action) -> None:
    """No array that a vector environment returns is shared between steps or with the environment.

    The arguments are those of `check_vector_matches_single`.
    """
    returned, singles = Returned(), [make() for _ in range(NUM_ENVS)]
    for when, pairs, result in _vector_rollout(make_vec(NUM_ENVS), singles, act, steps=20):
        for expected, got in pairs:
            message = "writing into an array that an earlier step returned changes the environment"
            assert_same(expected, got, message, subset=True)
        returned.take(result, when)
    returned.check()


def _vector_rollout(
    vector: VectorEnv[Any, Any, Any], singles: list[Env], act: Act, steps: int
) -> Iterator[tuple[str, list[tuple[Any, Any]], Any]]:
    """A name, the pairs (single's result, vector's result) of all rows, and the vector's result, at reset and step."""
    mode, rng, rows = vector.metadata["autoreset_mode"], np.random.default_rng(0), range(len(singles))
    result: Any = vector.reset(seed=7)
    starts = [env.reset(seed=7 + row) for row, env in enumerate(singles)]
    infos, over = [info for _, info in starts], [False for _ in rows]
    yield "reset", [(starts[row], (result[0][row], info_of(result[1], row))) for row in rows], result
    for step in range(1, steps + 1):
        if mode is AutoresetMode.DISABLED and any(over):
            result = vector.reset(options={"reset_mask": np.array(over)})
            starts = [singles[row].reset() for row in rows if over[row]]
            ended = [row for row in rows if over[row]]
            for row, start in zip(ended, starts, strict=True):
                infos[row], over[row] = start[1], False
            got = [(result[0][row], info_of(result[1], row)) for row in ended]
            yield f"reset before step {step}", list(zip(starts, got, strict=True)), result
        actions = [
            env.action_space.sample() if over[row] else act(env, infos[row], rng) for row, env in enumerate(singles)
        ]
        result = vector.step(np.array(actions))
        obs, rewards, terminations, truncations, columns = result
        pairs: list[tuple[Any, Any]] = []
        for row, env in enumerate(singles):
            expected: Any
            if over[row]:  # NEXT_STEP resets now
                start = env.reset()
                expected, over[row] = (start[0], 0.0, False, False, start[1]), False
            else:
                expected = env.step(actions[row])
                over[row] = expected[2] or expected[3]
            if over[row] and mode is AutoresetMode.SAME_STEP:
                final = (row_of(columns["final_obs"], row), info_of(columns["final_info"], row))
                pairs.append(((expected[0], expected[4]), final))
                start = env.reset()
                expected, over[row] = (start[0], *expected[1:4], start[1]), False
            infos[row] = expected[4]
            ends = float(rewards[row]), bool(terminations[row]), bool(truncations[row])
            pairs.append((expected, (obs[row], *ends, info_of(columns, row))))
        yield f"step {step}", pairs, result
