"""Legal and illegal actions of an environment, as its `action_masks()` has them."""

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


def legal_action(env: Env, info: dict[str, Any], rng: np.random.Generator) -> Any:
    """A random action within `env.action_masks()`.

    Raises:
        AssertionError: There is no such method, its shape is wrong, or nothing is legal.
    """
    masks = split_masks(env)
    assert all(mask.any() for mask in masks), "no action is legal although the episode goes on: a dead end must end it"
    return _join(env, [int(rng.choice(np.flatnonzero(mask))) for mask in masks])


def split_masks(env: Env) -> list[NDArray[np.bool_]]:
    """The mask, bool, of each factor of the action space.

    Raises:
        AssertionError: There is no method `action_masks()`, or its result does not fit the action space.
    """
    assert env.has_wrapper_attr("action_masks"), "the environment has no method action_masks()"
    masks = np.asarray(env.get_wrapper_attr("action_masks")())
    sizes = _factors(env)
    expected = (sum(sizes),)
    assert masks.shape == expected, f"action_masks() has shape {masks.shape}; {env.action_space} needs {expected}"
    assert masks.dtype == np.bool_, f"action_masks() has dtype {masks.dtype} where bool is needed"
    return np.split(masks, np.cumsum(sizes)[:-1])


def _factors(env: Env) -> list[int]:
    space = env.action_space
    assert isinstance(space, spaces.Discrete | spaces.MultiDiscrete), f"{space} is neither Discrete nor MultiDiscrete"
    return [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.tolist()


def _join(env: Env, factors: list[int]) -> Any:
    return np.int64(factors[0]) if isinstance(env.action_space, spaces.Discrete) else np.array(factors)


def is_allowed(env: Env, action: Any) -> bool:
    """Whether the masks of all factors allow an action."""
    return all(bool(mask[factor]) for mask, factor in zip(split_masks(env), np.atleast_1d(action), strict=True))


def probe_actions(env: Env, rng: np.random.Generator) -> list[Any]:
    """Some legal actions and some that one factor's mask forbids."""
    masks = split_masks(env)
    probes = []
    for wanted in [None, *range(len(masks))] * PROBES:
        pools = [np.flatnonzero(~mask if number == wanted else mask) for number, mask in enumerate(masks)]
        if all(pool.size for pool in pools):
            probes.append(_join(env, [int(rng.choice(pool)) for pool in pools]))
    return probes
