"""Cells that can be masked again in `SudokuUnmask-v0`: rewards, ends, S1, and that no way in a circle earns."""

from itertools import product

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from hypothesis import given, settings
from hypothesis import strategies as st

from sudoku_env import FlatUnmask, definite_digits, parse_board, testing
from sudoku_env.envs.dynamics import remask_reward, unmask_reward
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.environments import NONE, pair, response, right, tail, unmask_of, wrong

CHAIN = parse_board("1324|..31|.143|..12")  # of the blanks 4, 5, 8, 12, 13 all but 4 are definite
COST, LAM = 0.75, 0.25


def make(board=CHAIN, **arguments):
    return unmask_of(board, **{"lam": LAM, "take_back": True, "error_cost": COST} | arguments)


def again(env, cell, token=7):
    """Mask a cell again; the token means nothing."""
    return [env.max_gen_length + int(env.layout.cell_positions[cell]), token]


def test_rewards_by_hand():
    in_map, definite = np.array([False, True, True, True]), np.array([False, True, False, True])
    correct = np.array([False, True, True, False])
    assert unmask_reward(in_map, definite, correct, 0.5, 2.0).tolist() == [0.5, 1.0, 0.0, -2.0]
    assert remask_reward(np.array([True, False]), 2.0).tolist() == [-1.0, 2.0]


def test_an_episode_by_hand():
    env = make()
    start = env.state
    moves = [
        (right(env, 4), 0.0),  # right, but not definite
        (again(env, 4), -1.0),
        (right(env, 5), 1.0),
        (wrong(env, 8), -COST),
        (tail(env), LAM),
        (right(env, 12), 0.0),  # nothing is definite beside a wrong digit
        (again(env, 8), COST),
        (right(env, 8), 1.0),
        (again(env, 12), -1.0),
    ]
    for action, expected in moves:
        _, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == (expected, False, False)
    assert info["steps"] == len(moves) and not info["error"]
    assert (response(env)[env.layout.cell_positions[[4, 12]]] == env.mask_id).all()
    assert (env.state != start).sum() == 3  # two cells and a free position


def test_a_wrong_digit_stays_an_error_and_leaves_nothing_definite_until_it_is_taken_back():
    env = make()
    before = env.reset()[1]
    _, _, terminated, _, info = env.step(wrong(env, 5))
    assert not terminated and info["error"] and not info["definite"].any()
    assert np.flatnonzero(info["wrong"]).tolist() == [env.layout.cell_positions[5]]
    assert np.flatnonzero(info["remaskable"]).tolist() == [env.layout.cell_positions[5]]
    info = env.step(tail(env))[-1]
    assert info["error"] and info["wrong"].sum() == 1  # not of the last action alone
    info = env.step(again(env, 5))[-1]
    assert not info["error"] and not info["wrong"].any() and not info["remaskable"].any()
    np.testing.assert_array_equal(info["definite"], before["definite"])


def test_an_episode_ends_complete_and_right_or_with_its_budget():
    env = make(CHAIN, max_gen_length=make().layout.map_range[1])  # no free positions
    for cell in (5, 8, 12, 4):
        assert not env.step(right(env, cell))[2]
    _, _, terminated, _, info = env.step(wrong(env, 13))
    assert not terminated and not info["masked"].any() and info["error"]
    env.step(again(env, 13))
    _, reward, terminated, truncated, info = env.step(right(env, 13))
    assert (reward, terminated, truncated, info["error"]) == (1.0, True, False, False)
    refused("reset", lambda: env.step(right(env, 13)), gymnasium.error.ResetNeeded)

    for budget, steps in ((None, 10), (3, 3)):  # twice the masks at the start
        env = make(CHAIN, max_gen_length=env.max_gen_length, max_steps=budget)
        for step in range(1, steps + 1):
            _, _, terminated, truncated, info = env.step(right(env, 5) if step % 2 else again(env, 5))
            assert (terminated, truncated) == (step == steps, False)
            assert info["definite"].any()


def test_illegal_actions_end_the_episode_and_change_nothing():
    env = make(illegal_reward=-3.0)
    length = env.max_gen_length
    for action in (
        again(env, 4),  # still masked
        again(env, 0),  # a given
        tail(env, -length),  # a free position, filled below
        [length, 7],  # the opening
        again(env, 5, token=env.mask_id),
        [pair(env, 4, 1)[0], env.mask_id],
        right(env, 5),  # filled below
    ):
        env.reset()
        env.step(tail(env))
        obs = env.step(right(env, 5))[0]
        after, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["illegal"], info["steps"]) == (-3.0, True, True, 2)
        np.testing.assert_array_equal(after, obs)
    env.reset()
    refused("outside", lambda: env.step([2 * length, 7]), gymnasium.error.InvalidAction)


def test_the_masks_of_the_factors():
    env = make(tokens_per_step=2)
    env.step([right(env, 5), NONE])
    filled = np.arange(env.max_gen_length) == env.layout.cell_positions[5]
    positions = [*(response(env) == env.mask_id), *filled]
    tokens = [*(np.arange(env.vocabulary) != env.mask_id)]
    assert env.action_masks().tolist() == positions + tokens + [True, *positions, *tokens]
    assert env.action_space.nvec[:, 0].tolist() == [2 * env.max_gen_length, 2 * env.max_gen_length + 1]


def test_several_pairs_are_judged_by_the_state_before():
    env = make(tokens_per_step=3)
    env.step([wrong(env, 5), right(env, 8), NONE])
    _, reward, _, _, info = env.step([again(env, 5), again(env, 8), right(env, 13)])
    assert reward == COST - 1 + 0  # a wrong digit stood there before
    assert not info["error"] and info["definite"].any()
    assert env.step([right(env, 5), again(env, 13), right(env, 8)])[1] == 1 - 1 + 1


def test_the_expected_reward_is_its_closed_form():
    """All actions are really taken, in states with and without a wrong digit and with cells of every kind.

    With C the masked cells, O the free positions and F the filled cells that are no givens it is λ Σ_O π(ℓ) +
    Σ_C π(ℓ) [ (1[S1] + c) q(y*|ℓ) − c ] + Σ_F π(ℓ) (c 1[wrong] − 1[right]), docs/objective.md, "Taking back".
    """
    rng = np.random.default_rng(0)
    env = make()
    cells, length, tokens = env.layout.cell_positions, env.max_gen_length, [*env.layout.digit_ids.tolist(), 7]
    for history in ([], [right(env, 4), right(env, 8)], [right(env, 8), wrong(env, 5), tail(env)]):
        info = env.reset()[1]
        for action in history:
            info = env.step(action)[-1]
        masked, filled = np.flatnonzero(info["masked"]), np.flatnonzero(info["remaskable"])
        pi = rng.dirichlet(np.ones(len(masked) + len(filled)))
        q = rng.dirichlet(np.ones(len(tokens)), size=len(masked))
        total, form = 0.0, 0.0
        for (k, position), (t, token) in product(enumerate(masked), enumerate(tokens)):
            total += pi[k] * q[k, t] * played(env, [*history, [position, token]])
        for k, position in enumerate(filled, start=len(masked)):
            total += pi[k] * played(env, [*history, [length + position, 7]])
            form += pi[k] * (COST if info["wrong"][position] else -1)
        for k, position in enumerate(masked):
            if position in cells:
                share = q[k, tokens.index(env.layout.solution_ids[cells.tolist().index(position)])]
                form += pi[k] * ((info["definite"][position] + COST) * share - COST)
            else:
                form += pi[k] * LAM
        assert total == pytest.approx(form, abs=1e-12)
        assert info["definite"].any() == (not info["wrong"].any())


def played(env, actions):
    """The reward of the last of some actions from the start."""
    env.reset()
    return [env.step(action)[1] for action in actions][-1]


def test_no_way_in_a_circle_earns():
    """The graph of all states with a right, a wrong or no digit in five cells has no cycle of positive reward.

    Every edge is a step really taken. Its reward is the change of Φ = right cells − c · wrong cells, and for a right
    digit in a cell that is not definite one less, so no cycle is above 0: the longest ways between all pairs of states
    say so too.
    """
    env = make(max_steps=100)
    cells = np.flatnonzero(CHAIN == 0)
    states = {state: number for number, state in enumerate(product((None, right, wrong), repeat=len(cells)))}
    way = np.full((len(states), len(states)), -np.inf)
    guesses = 0
    for state, number in states.items():
        history = [write(env, cell) for cell, write in zip(cells, state, strict=True) if write]
        for place, cell in enumerate(cells):
            for write in (None,) if state[place] else (right, wrong):
                after = (*state[:place], write, *state[place + 1 :])
                reward = played(env, [*history, write(env, cell) if write else again(env, cell)])
                change = potential(after) - potential(state)
                board = CHAIN.copy()
                stand = [place for place, there in enumerate(state) if there is right]
                board[cells[stand]] = env.layout.solution[cells[stand]]
                definite = definite_digits(board)[cell] > 0 and wrong not in state
                guess = write is right and not definite
                guesses += guess
                assert reward == pytest.approx(change - guess)
                way[number, states[after]] = reward
    assert len(states) == 243 and guesses > 0
    for between in range(len(states)):
        way = np.maximum(way, way[:, [between]] + way[[between]])
    assert way.diagonal().max() == pytest.approx(0)


def potential(state):
    return sum((there is right) - COST * (there is wrong) for there in state)


@settings(max_examples=20)
@given(rng=st.integers(0, 2**32).map(np.random.default_rng), cost=st.floats(0.01, 5), count=st.integers(1, 3))
def test_no_play_earns_more_than_the_potential_rises(rng, cost, count):
    env = make(parse_board("1...|..3.|.1..|...2"), error_cost=cost, tokens_per_step=count, max_steps=40)
    total, over = 0.0, False
    _, info = env.reset()
    while not over:
        _, reward, over, _, info = env.step(testing.legal_action(env, info, rng))
        total += reward
        right = info["remaskable"].sum() - info["wrong"].sum()
        free = 4 - info["masked"][-4:].sum()
        assert total <= right - cost * info["wrong"].sum() + LAM * free + 1e-9


def test_without_taking_back_nothing_has_changed():
    """Episodes of right tokens are those of the environment as it was, but for the mask of what can be taken back."""
    plain, env = make(take_back=False, error_cost=None), make()
    start, info = env.reset()
    assert data_equivalence(plain.reset()[0], start) and not info.pop("remaskable").any()
    for action in [right(env, cell) for cell in (4, 5, 8, 12, 13)] + [tail(env, place) for place in range(4)]:
        *expected, expected_info = plain.step(action)
        *got, info = env.step(action)
        del info["remaskable"]
        assert data_equivalence(tuple(expected), tuple(got)) and data_equivalence(expected_info, info)
    assert "remaskable" not in expected_info and got[2]


def test_flat_actions_take_cells_back():
    env = FlatUnmask(make(error_cost=None))
    _, info = env.reset(seed=0)
    actions = env.actions
    assert len(actions) == 5 * 4 + 4 + 5
    number = int(actions.encode(right(env.unwrapped, 8)))
    back = len(actions) - 3  # cell 8 is the third of five blanks
    assert actions.decode(back).tolist() == again(env.unwrapped, 8, token=env.unwrapped.layout.digit_ids[0])
    assert info["action_mask"][-5:].tolist() == [0] * 5
    _, reward, *_, info = env.step(number)
    assert reward == 1.0 and not info["action_mask"][number]
    assert info["action_mask"][-5:].tolist() == [0, 0, 1, 0, 0]
    assert env.step(back)[1] == -1.0


def test_a_cell_that_was_taken_back_is_shown_as_blank():
    env = make(render_mode="ansi")
    blank = env.render()
    env.step(right(env, 5))
    view = env._episode().view(0)
    assert env.render() != blank and view.last == 5 and view.order[5] == 1
    env.step(again(env, 5))
    view = env._episode().view(0)
    assert env.render() == blank and view.last is None and not view.order.any() and not view.wrong.any()
