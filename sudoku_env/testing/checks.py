"""Checks of a single environment; each raises `AssertionError` with a message that says what is wrong."""

import contextlib
import copy
import pickle  # nosec B403 # copies of what the caller made
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from sudoku_env.testing.actions import Act, Env, Make, is_allowed, legal_action, probe_actions, split_masks
from sudoku_env.testing.comparison import Returned, assert_same, difference

MAX_STEPS = 10_000


def check_gymnasium(make: Make) -> None:
    """Gymnasium's own checker has nothing to say, not even a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*different from the unwrapped version")  # wrappers are checked too
        try:
            env = make()
            check_env(env, skip_render_check=env.spec is None)
        except Warning as warning:
            raise AssertionError(f"Gymnasium's checker warns: {warning}") from warning


def check_seeding(make: Make, act: Act = legal_action, *, varied: bool = True) -> None:
    """Equal seeds give equal roll-outs, also after a later reset without a seed; different seeds give different starts.

    Args:
        make: Gives a new environment.
        act: Function that chooses actions.
        varied: Whether the environment has more than one start.
    """
    first, second = make(), make()
    for seed in (3, None, None, 3):
        start, again = first.reset(seed=seed), second.reset(seed=seed)
        label = "a later reset() after reset(seed=3)" if seed is None else f"reset(seed={seed})"
        assert_same(start, again, f"the seed is ignored: {label} starts two environments differently")
        for one, two in _together(first, second, start[1], act, seed=0):
            assert_same(one, two, "the seed is ignored: two environments with equal seeds and actions differ")
    starts = {pickle.dumps(first.reset(seed=seed)[0]) for seed in range(20)}
    assert len(starts) > 1 or not varied, "the seed is ignored: 20 seeds give one and the same first observation"


def check_masks(make: Make, act: Act = legal_action) -> None:
    """Masks are int8, agree with `action_masks()`, and say at every step which actions are illegal."""
    env, rng = make(), np.random.default_rng(0)
    for episode in range(3):
        _, info = env.reset(seed=episode)
        action, over = None, False
        while not over:
            _check_info_mask(env, info)
            refused = bool(np.any(info.get("refused", False)))  # what is refused may come again
            assert action is None or refused or not is_allowed(env, action), (
                f"stale mask: {action} was just taken and is still legal"
            )
            for probe in probe_actions(env, rng):
                allowed = is_allowed(env, probe)
                illegal = bool(_step_copy(env, probe)[-1]["illegal"])
                verdict = "illegal although the mask allows it" if allowed else "legal although the mask forbids it"
                assert allowed != illegal, f"wrong mask: {probe} is {verdict}"
            action = act(env, info, rng)
            *_, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        _check_info_mask(env, info)


def check_illegal_actions(make: Make, act: Act = legal_action) -> None:
    """An illegal action is punished, not raised: the step returns, says so, and leaves the observation as it was."""
    env, rng = make(), np.random.default_rng(0)
    for episode in range(3):
        obs, info = env.reset(seed=episode)
        for _ in range(episode):
            obs, _, terminated, truncated, info = env.step(act(env, info, rng))
            if terminated or truncated:
                obs, info = env.reset()
        for probe in probe_actions(env, rng):
            if not is_allowed(env, probe):
                after, *_, info_after = _step_copy(env, probe)
                assert info_after["illegal"], f"illegal action {probe}: info['illegal'] is not set"
                assert_same(obs, after, f"illegal action {probe} changes the state")


def check_termination(make: Make, act: Act = legal_action) -> None:
    """Episodes end, by `terminated` unless at a time limit; steps before a start and after the end are refused."""
    env, rng = make(), np.random.default_rng(0)
    _assert_refused(env, env.action_space.sample(), "before the first reset")
    limit = None if env.spec is None else env.spec.max_episode_steps
    for episode in range(10):
        _, info = env.reset(seed=episode)
        for step in range(1, MAX_STEPS + 1):
            action = act(env, info, rng)
            _, reward, terminated, truncated, info = env.step(action)
            assert isinstance(terminated, bool) and isinstance(truncated, bool), "terminated and truncated must be bool"
            assert isinstance(reward, float) and np.isfinite(reward), f"reward {reward!r} is no finite float"
            if truncated:
                assert limit == step, f"truncated is set at step {step}, which no time limit ends: use terminated"
            if terminated or truncated:
                break
        else:
            raise AssertionError(f"the episode does not end within {MAX_STEPS} steps")
        if terminated:
            _assert_refused(env, action, "after the end")


def check_no_sharing(make: Make, act: Act = legal_action) -> None:
    """No array is shared between steps or with the environment: observations, infos and masks are the caller's own."""
    env, twin = make(), make()
    returned = Returned()
    one, two = env.reset(seed=5), twin.reset(seed=5)
    returned.take([one, env.get_wrapper_attr("action_masks")()], "reset")
    for number, (result, expected) in enumerate(_together(env, twin, two[1], act, seed=0), start=1):
        assert_same(expected, result, "writing into an array that an earlier step returned changes the environment")
        returned.take([result, env.get_wrapper_attr("action_masks")()], f"step {number}")
    returned.check()


def check_pickle(make: Make, act: Act = legal_action) -> None:
    """Copies by pickle and by `copy.deepcopy`, made in mid-episode, go on like the original, and apart from it."""
    for name, duplicate in (("pickled", _pickled), ("deep", copy.deepcopy)):
        env, rng = make(), np.random.default_rng(0)
        _, info = env.reset(seed=1)
        result = env.step(act(env, info, rng))
        if result[2] or result[3]:
            _, info = env.reset()
        try:
            twin, bystander = duplicate(env), duplicate(env)
        except Exception as error:
            raise AssertionError(f"no {name} copy can be made: {error!r}") from error
        masks = bystander.get_wrapper_attr("action_masks")()
        for one, two in _together(env, twin, info, act, seed=1):
            assert_same(one, two, f"a {name} copy goes on differently")
        assert_same(env.reset(), twin.reset(), f"a {name} copy resets differently")
        assert_same(masks, bystander.get_wrapper_attr("action_masks")(), f"a {name} copy changes with the original")


def check_spec(make: Make, act: Act = legal_action) -> None:
    """`gymnasium.make(env.spec)` gives the same environment, also after a round trip by pickle or, if it can, JSON."""
    env = make()
    assert env.spec is not None, "env.spec is None: register the environment and create it with gymnasium.make"
    copies = [env.spec, _pickled(env.spec)]
    with contextlib.suppress(TypeError, ValueError):  # a tokenizer among the arguments does not go through JSON
        copies.append(EnvSpec.from_json(env.spec.to_json()))
    for spec in copies:
        twin = gymnasium.make(spec)
        assert env.observation_space == twin.observation_space, "an environment made from the spec observes differently"
        assert env.action_space == twin.action_space, "an environment made from the spec acts differently"
        start, again = env.reset(seed=2), twin.reset(seed=2)
        assert_same(start, again, "an environment made from the spec starts differently")
        for one, two in _together(env, twin, start[1], act, seed=2):
            assert_same(one, two, "an environment made from the spec goes on differently")


def check_render(make: Make, act: Act = legal_action) -> None:
    """Every declared render mode works after a reset, in an episode and at its end; `make` takes `render_mode`."""
    modes = make().metadata.get("render_modes", [])
    assert modes, "metadata['render_modes'] declares no mode"
    for mode in modes:
        env, rng = make(render_mode=mode), np.random.default_rng(0)
        assert env.render_mode == mode, f"render_mode is {env.render_mode!r} where {mode!r} was asked for"
        _, info = env.reset(seed=0)
        pictures = [_check_picture(env.render(), mode)]
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(act(env, info, rng))
            pictures.append(_check_picture(env.render(), mode))
            over = terminated or truncated
        changes = [difference(pictures[0], picture, "picture") for picture in pictures]
        assert any(changes), f"mode {mode!r}: all pictures of an episode are the same"
    env = make()
    env.reset(seed=0)
    assert env.render() is None, "render() without a render mode must give None"


def _step_copy(env: Env, action: Any) -> Any:
    try:
        result = copy.deepcopy(env).step(action)
    except Exception as error:
        raise AssertionError(f"action {action} of the action space is raised, not punished: {error!r}") from error
    assert "illegal" in result[-1], "info lacks 'illegal', which says whether the last action was"
    return result


def _check_info_mask(env: Env, info: dict[str, Any]) -> None:
    masks = split_masks(env)
    found: dict[tuple[str, ...], NDArray[np.bool_]] = {("action_mask",): np.concatenate(masks)}
    if len(masks) > 1:
        found[("masked", "remaskable") if "remaskable" in info else ("masked",)] = masks[0]
    present = {keys: mask for keys, mask in found.items() if info.keys() >= set(keys)}
    expected = " or ".join(" and ".join(map(repr, keys)) for keys in found)
    assert present, f"info has no mask: expected {expected}"
    for keys, mask in present.items():
        for key in keys:
            given = info[key]
            assert isinstance(given, np.ndarray) and given.dtype == np.int8, f"info[{key!r}] is no int8 array"
        where = " and ".join(f"info[{key!r}]" for key in keys)
        given = np.concatenate([info[key] for key in keys])
        assert np.array_equal(given, mask), f"stale mask: {where} differs from action_masks()"


def _assert_refused(env: Env, action: Any, when: str) -> None:
    try:
        env.step(action)
    except gymnasium.error.ResetNeeded:
        return
    except Exception as error:
        raise AssertionError(f"a step {when} raises {error!r} where ResetNeeded is due") from error
    raise AssertionError(f"a step {when} is accepted where ResetNeeded is due")


def _check_picture(picture: Any, mode: str) -> Any:
    if mode == "ansi":
        assert isinstance(picture, str) and picture.strip(), "mode 'ansi': render() gives no text"
    if mode == "rgb_array":
        fits = isinstance(picture, np.ndarray) and picture.ndim == 3 and picture.shape[2] == 3
        assert fits and picture.dtype == np.uint8, "mode 'rgb_array': render() gives no uint8 (height, width, 3)"
    return picture


def _together(one: Env, two: Env, info: dict[str, Any], act: Act, *, seed: int) -> Iterator[tuple[Any, Any]]:
    """Both environments' results under the actions chosen for the second, up to the end of the episode."""
    rng, over = np.random.default_rng(seed), False
    while not over:
        action = act(two, info, rng)
        results = one.step(copy.copy(action)), two.step(action)
        yield results
        *_, terminated, truncated, info = results[1]
        over = terminated or truncated


def _pickled(made: Any) -> Any:
    return pickle.loads(pickle.dumps(made))  # nosec B301 # see the import
