"""Actions of several pairs, and errors that are corrected, in `SudokuUnmask-v0`."""

from itertools import permutations, product

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from sudoku_env import PromptPool, SudokuUnmaskVectorEnv, build_prompt, definite_digits, parse_board, testing
from sudoku_env.envs.rendering import trace_views
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.environments import NONE, pair, response, right, tail, unmask_of
from tests.sudoku_env.helpers.sources import fixed_pool

LOOSE = parse_board("1...|..3.|.1..|...2")  # some blanks become definite only after others
ALMOST = parse_board("12.4|3412|21.3|43.1")  # three definite blanks: 3 in cell 2, 4 in cell 10, 2 in cell 14


def make(board=ALMOST, **arguments):
    return unmask_of(board, **{"tokens_per_step": 3, "lam": 0.25} | arguments)


def test_the_space_and_the_masks_of_several_pairs():
    env = make()
    length, vocabulary = env.max_gen_length, env.vocabulary
    assert env.action_space.nvec.tolist() == [[length, vocabulary], *[[length + 1, vocabulary]] * 2]
    assert env.action_space.start.tolist() == [[0, 0], [-1, 0], [-1, 0]]
    masked, tokens = (response(env) == env.mask_id).tolist(), (np.arange(vocabulary) != env.mask_id).tolist()
    assert env.action_masks().tolist() == masked + tokens + 2 * [True, *masked, *tokens]


def test_an_action_earns_the_sum_over_its_pairs():
    env = make()
    _, reward, terminated, _, info = env.step([pair(env, 2, 3), tail(env), pair(env, 14, 2)])
    assert (reward, terminated) == (1 + 0.25 + 1, False)
    assert info["steps"] == 1 and not info["error"] and not info["wrong"].any()
    assert response(env)[[pair(env, 2, 3)[0], env.max_gen_length - 1]].tolist() == [pair(env, 2, 3)[1], 7]


def test_every_pair_is_judged_by_the_state_before():
    """Each cell in turn: filled after another cell that makes it definite it earns 1, together with that cell 0."""
    env, seen = make(LOOSE), 0
    now = np.flatnonzero(definite_digits(LOOSE))
    for first in now:
        after = LOOSE.copy()
        after[first] = env.solution[first]
        for second in np.setdiff1d(np.flatnonzero(definite_digits(after)), now):
            seen += 1
            one, two = right(env, first), right(env, second)
            for actions in ([[one, two, NONE]], [[two, one, NONE]], [[one, NONE, NONE], [two, NONE, NONE]]):
                env.reset()
                assert all(env.step(action)[1] == 1.0 for action in actions)
    assert seen


def test_a_wrong_token_ends_the_episode_after_all_pairs_are_written():
    env = make()
    _, reward, terminated, truncated, info = env.step([pair(env, 2, 4), pair(env, 10, 4), tail(env)])
    assert (reward, terminated, truncated) == (1 + 0.25, True, False)
    assert info["error"] and not info["definite"].any()
    assert np.flatnonzero(info["wrong"]).tolist() == [env.layout.cell_positions[2]]
    assert response(env)[env.layout.cell_positions[[2, 10]]].tolist() == [env.layout.digit_ids[3]] * 2
    refused("reset", lambda: env.step([pair(env, 14, 2), NONE, NONE]), gymnasium.error.ResetNeeded)


@pytest.mark.parametrize("count", [1, 3])
def test_a_corrected_episode_goes_on_with_the_answer(count):
    env = make(on_error="correct", tokens_per_step=count)
    no_digit = [pair(env, 2, 3)[0], 7]

    def step(*pairs):
        return env.step(np.array([*pairs, NONE, NONE][:count]).reshape(env.action_space.shape))

    for pairs in ([pair(env, 10, 3)], [no_digit]) if count == 1 else ([pair(env, 10, 3), no_digit],):
        _, reward, terminated, _, info = step(*pairs)
        assert (reward, terminated, info["error"]) == (0.0, False, True)
        assert np.flatnonzero(info["wrong"]).tolist() == sorted(position for position, _ in pairs)
    assert response(env)[env.layout.cell_positions[[2, 10]]].tolist() == env.layout.digit_ids[[2, 3]].tolist()
    assert np.flatnonzero(info["definite"]).tolist() == [env.layout.cell_positions[14]]  # the corrected board's

    _, reward, terminated, _, info = step(pair(env, 14, 2))
    assert (reward, terminated, info["error"]) == (1.0, False, False) and not info["wrong"].any()
    for place in range(4):
        assert step(tail(env, place))[1:3] == (0.25, place == 3)


@pytest.mark.parametrize("on_error", ["end", "correct"])
def test_the_last_pairs_may_be_wrong(on_error):
    env = make(tokens_per_step=8, on_error=on_error)
    action = [pair(env, 2, 3), pair(env, 10, 3), pair(env, 14, 2), *(tail(env, place) for place in range(4)), NONE]
    _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["error"]) == (2 + 4 * 0.25, True, True)
    assert not info["masked"].any()


def test_illegal_sets_end_the_episode_and_change_nothing():
    env = make(illegal_reward=-3.0)
    good, given = pair(env, 2, 3), pair(env, 0, 1)
    for action in (
        [good, good, NONE],  # a position twice
        [good, NONE, [good[0], 7]],
        [good, given, NONE],  # a position that is filled
        [good, NONE, [pair(env, 10, 4)[0], env.mask_id]],  # the mask token
    ):
        before, _ = env.reset()
        obs, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == (-3.0, True, False)
        assert info["illegal"] and not info["error"] and not info["wrong"].any() and info["steps"] == 0
        np.testing.assert_array_equal(obs, before)


def test_an_illegal_action_after_a_corrected_one_is_no_error():
    env = make(on_error="correct")
    assert env.step([pair(env, 2, 4), NONE, NONE])[-1]["error"]
    info = env.step([pair(env, 2, 3), NONE, NONE])[-1]
    assert info["illegal"] and not info["error"] and not info["wrong"].any()


def test_the_token_beside_no_position_is_ignored():
    env = make()
    obs, reward, *_ = env.step([pair(env, 2, 3), [-1, env.mask_id], [-1, 5]])
    env.reset()
    expected, same, *_ = env.step([pair(env, 2, 3), NONE, NONE])
    assert reward == same == 1.0
    np.testing.assert_array_equal(obs, expected)


def test_actions_outside_the_space_are_named():
    env = make()
    good = pair(env, 2, 3)
    for action, named in (
        ([NONE, NONE, NONE], r"\(-1, 0\)"),
        ([NONE, good, NONE], r"\(-1, 0\)"),
        ([good, [-2, 0], NONE], r"\(-2, 0\)"),
        ([good, [env.max_gen_length, 0], NONE], rf"\({env.max_gen_length}, 0\)"),
        ([good, NONE, [-1, env.vocabulary]], rf"\(-1, {env.vocabulary}\)"),
        ([good, NONE, [-1, -1]], r"\(-1, -1\)"),
    ):
        with pytest.raises(gymnasium.error.InvalidAction, match=named + r" of action .* is outside MultiDiscrete"):
            env.step(np.array(action))
    for action in (good, [good, NONE], [[*good, 0]] * 3, np.array([good, good, good]).astype(float)):
        with pytest.raises(gymnasium.error.InvalidAction, match=r"expected integers of shape \(3, 2\)"):
            env.step(action)
    assert env.step([good, NONE, NONE])[1] == 1.0


@pytest.mark.parametrize("bad", [NONE, [-2, 0]])
def test_a_vector_names_the_environment_and_its_action(bad):
    envs = SudokuUnmaskVectorEnv(2, source=fixed_pool(4), tokens_per_step=2)
    _, infos = envs.reset(seed=0)
    one, two = ([position, 5] for position in infos["masked"].argmax(1))
    named = rf"action \[\[{bad[0]}, 0\], .* of environment 1 is out"
    refused(named, lambda: envs.step([[one, NONE], [bad, two]]), gymnasium.error.InvalidAction)


@pytest.mark.parametrize("on_error", ["end", "correct"])
@pytest.mark.parametrize("count", [2, 3])
def test_expected_reward_over_all_ordered_draws_is_the_sum_over_inclusions(count, on_error):
    """Every ordered draw with every choice of tokens is really taken, from a board of three blanks and a tail of one.

    Positions are drawn one after the other without replacement from p, each token from q at its position. The mean
    reward is Σ_ℓ P(ℓ is drawn) · (λ in the tail, else 1[S1] q(y*|ℓ)); for two draws P = p_ℓ + Σ_m p_m p_ℓ / (1 − p_m),
    and for three of four positions 1 − P is the chance that ℓ comes last.
    """
    board, lam = parse_board("123.|34.2|2143|43.1"), 0.3
    length = make(board).layout.map_range[1] + 1
    options = {"lam": lam, "tokens_per_step": count, "on_error": on_error, "max_gen_length": length}
    env = make(board, **options)
    _, info = env.reset(seed=0)
    masked = np.flatnonzero(info["masked"])
    tokens = [*env.layout.digit_ids.tolist(), 7]
    rng = np.random.default_rng(count)
    p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(len(tokens)), size=4)
    assert len(masked) == 4 and masked[-1] == length - 1

    actions, weights = [], []
    for draw in permutations(range(4), count):
        left, chance = 1.0, 1.0
        for place in draw:
            chance *= p[place] / left
            left -= p[place]
        for chosen in product(range(len(tokens)), repeat=count):
            actions.append([[masked[place], tokens[token]] for place, token in zip(draw, chosen, strict=True)])
            weights.append(chance * np.prod([q[place, token] for place, token in zip(draw, chosen, strict=True)]))
    source = PromptPool([build_prompt(board, "compact")])
    envs = SudokuUnmaskVectorEnv(len(actions), source=source, autoreset_mode="Disabled", **options)
    envs.reset()
    rewards = envs.step(np.array(actions))[1]
    assert sum(weights) == pytest.approx(1)

    others = [[m for m in range(4) if m != place] for place in range(4)]
    if count == 2:
        drawn = [p[k] + sum(p[m] * p[k] / (1 - p[m]) for m in others[k]) for k in range(4)]
    else:
        drawn = [
            1 - sum(p[a] * p[b] / (1 - p[a]) * p[c] / (1 - p[a] - p[b]) for a, b, c in permutations(others[k]))
            for k in range(4)
        ]
    cells = env.layout.cell_positions.tolist()
    value = [
        lam if m not in cells else info["definite"][m] * q[k, tokens.index(env.layout.solution_ids[cells.index(m)])]
        for k, m in enumerate(masked.tolist())
    ]
    assert info["definite"].sum() == 3
    assert float(np.dot(weights, rewards)) == pytest.approx(float(np.dot(drawn, value)), abs=1e-12)


@pytest.mark.parametrize("on_error", ["end", "correct"])
def test_pictures_and_the_replay_of_a_recorded_decode(on_error):
    env, rng = make(LOOSE, render_mode="ansi", on_error=on_error), np.random.default_rng(4)
    _, info = env.reset(seed=0)
    solution, states, pictures = env.solution, [env.state], [env.render()]
    over = False
    while not over:
        action = testing.legal_action(env, info, rng)
        action[1, 0] = -1  # two pairs at most
        *_, over, _, info = env.step(action)
        states.append(env.state)
        pictures.append(env.render())
        if len(states) == 2:
            view = env._episode().view(0)
    boards = env.layout.read_boards(np.array(states))
    views = trace_views(boards, solution)
    assert (views[1].order == view.order).all() and (views[1].guessed == view.guessed).all()
    assert views[1].last == view.last
    assert bool(views[-1].wrong.any()) == (on_error == "end")
    assert len(set(pictures)) > 1


def test_the_last_cell_is_outlined_only_where_it_is_one():
    env = make()
    env.step([pair(env, 2, 3), pair(env, 10, 4), NONE])
    view = env._episode().view(0)
    assert view.last is None and view.order[[2, 10, 14]].tolist() == [1, 1, 0]
    env.step([pair(env, 14, 2), tail(env), NONE])
    view = env._episode().view(0)
    assert view.last == 14 and view.order[[2, 10, 14]].tolist() == [1, 1, 2] and not view.guessed.any()


def test_one_pair_a_step_is_one_token_a_step():
    """With errors that end the episode, k pairs of which all but the first are none are the environment of one pair."""
    several, one = (make(LOOSE, tokens_per_step=count) for count in (4, 1))
    rng = np.random.default_rng(0)
    for _ in range(10):
        start, again = several.reset(), one.reset()
        assert data_equivalence(start, again, exact=True)
        info, over = again[1], False
        while not over:
            action = testing.legal_action(one, info, rng)
            expected = one.step(action)
            assert data_equivalence(several.step([action, NONE, NONE, NONE]), expected, exact=True)
            over, info = expected[2], expected[4]
