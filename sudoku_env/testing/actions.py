"""Legal and illegal actions of an environment, as its `action_masks()` has them.

An action space is `Discrete`, `MultiDiscrete` of one row, or `MultiDiscrete` of several rows, which then are an ordered
set: no two may begin alike, but for rows that begin with -1, which are none whatever follows.
"""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Env = gymnasium.Env[Any, Any]
Make = Callable[..., Env]
Act = Callable[[Env, dict[str, Any], np.random.Generator], Any]

PROBES = 4
NONE = -1


def legal_action(env: Env, info: dict[str, Any], rng: np.random.Generator) -> Any:
    """A random action within `env.action_masks()`.

    Raises:
        AssertionError: There is no such method, its shape is wrong, or nothing is legal.
    """
    masks = split_masks(env)
    assert all(mask.any() for mask in masks), "no action is legal although the episode goes on: a dead end must end it"
    return _drawn(env, masks, rng)


def split_masks(env: Env) -> list[NDArray[np.bool_]]:
    """The mask, bool, of each factor of the action space, row by row, which `action_masks()` must fit."""
    assert env.has_wrapper_attr("action_masks"), "the environment has no method action_masks()"
    masks = np.asarray(env.get_wrapper_attr("action_masks")())
    sizes = _factors(env)[0].flatten().tolist()
    expected = (sum(sizes),)
    assert masks.shape == expected, f"action_masks() has shape {masks.shape}; {env.action_space} needs {expected}"
    assert masks.dtype == np.bool_, f"action_masks() has dtype {masks.dtype} where bool is needed"
    return np.split(masks, np.cumsum(sizes)[:-1])


def is_allowed(env: Env, action: Any) -> bool:
    """Whether the masks of all factors allow an action, and no two of its rows begin alike."""
    sizes, start = _factors(env)
    masks, begins = iter(split_masks(env)), []
    for row, lowest in zip(np.reshape(action, sizes.shape), start, strict=True):
        allowed = [bool(next(masks)[entry]) for entry in row - lowest]
        if not all(allowed[:1] if row[0] == NONE else allowed) or row[0] in begins:
            return False
        begins += [] if row[0] == NONE else [row[0]]
    return True


def probe_actions(env: Env, rng: np.random.Generator) -> list[Any]:
    """Some legal actions, some that one factor's mask forbids, and some with two rows that begin alike."""
    masks = split_masks(env)
    rows = len(_factors(env)[0])
    probes = []
    for wanted in [None, *range(len(masks))] * PROBES:
        pools = [~mask if number == wanted else mask for number, mask in enumerate(masks)]
        if all(pool.any() for pool in pools):
            probes.append(_drawn(env, pools, rng))
    for _ in range(PROBES if rows > 1 else 0):
        action = _drawn(env, masks, rng)
        action[rng.integers(1, rows)] = action[0]
        probes.append(action)
    return probes


def _factors(env: Env) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many values each factor has, and the least of them, both int64 `(rows, factors)`."""
    space = env.action_space
    assert isinstance(space, spaces.Discrete | spaces.MultiDiscrete), f"{space} is neither Discrete nor MultiDiscrete"
    sizes = np.array(space.n if isinstance(space, spaces.Discrete) else space.nvec, dtype=np.int64)
    start = np.array(space.start, dtype=np.int64)
    shape = sizes.shape if sizes.ndim == 2 else (1, -1)
    return sizes.reshape(shape), start.reshape(shape)


def _drawn(env: Env, pools: list[NDArray[np.bool_]], rng: np.random.Generator) -> Any:
    """An action with a random entry of each factor's pool, bool; no two rows begin alike."""
    sizes, start = _factors(env)
    rows, left = np.empty(sizes.shape, dtype=np.int64), iter(pools)
    for number, row in enumerate(rows):
        for factor in range(len(row)):
            values = np.flatnonzero(next(left)) + start[number, factor]
            if factor == 0 and number:
                taken = rows[:number, 0]
                values = np.setdiff1d(values, taken[taken != NONE])
            row[factor] = rng.choice(values)
    return (
        np.int64(rows[0, 0]) if isinstance(env.action_space, spaces.Discrete) else rows.reshape(env.action_space.shape)
    )
