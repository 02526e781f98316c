import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudoku_env.envs.dynamics import unmask_reward
from tests.helpers.one_step import step_batch

MASK, SPACE = 9, 0
CELLS = np.array([1, 3, 5, 7])  # a toy map of two digits in four cells, words at the even positions
DIGITS = np.array([5, 6])
SOLUTION = np.array([1, 2, 2, 1], dtype=np.uint8)


def steps(responses, positions, tokens, definite, lam=0.5, **options):
    given = {"cell_positions": CELLS, "digit_ids": DIGITS, "mask_id": MASK, "lam": lam, **options}
    solutions = np.tile(SOLUTION, (len(responses), 1))
    return step_batch(responses, positions, tokens, solutions=solutions, definite=definite, **given)


def step(response, position, token, definite=(False,) * 4, **options):
    return steps(*(np.array([each]) for each in (response, position, token, definite)), **options)


def test_reward_by_hand():
    in_map = np.array([False, False, True, True, True, True])
    definite = np.array([False, True, False, False, True, True])
    correct = np.array([False, True, False, True, False, True])
    np.testing.assert_array_equal(unmask_reward(in_map, definite, correct, 0.5), [0.5, 0.5, 0, 0, 0, 1])


@pytest.mark.parametrize(
    ("position", "token", "reward", "error"),
    [
        (0, SPACE, 0.25, False),  # outside the map, anything goes
        (0, 6, 0.25, False),
        (3, 6, 1.0, False),  # definite and right
        (3, 5, 0.0, True),  # definite and wrong
        (3, SPACE, 0.0, True),  # no digit
        (5, 6, 0.0, False),  # right but not definite
        (5, 5, 0.0, True),
    ],
)
def test_one_step_by_hand(position, token, reward, error):
    response = [MASK, 5, MASK, MASK, MASK, MASK, MASK, MASK]
    after = step(response, position, token, definite=[False, True, False, False], lam=0.25)
    assert after.rewards.tolist() == [reward]
    assert after.errors.tolist() == [error]
    assert after.complete.tolist() == [False]
    response[position] = token
    assert after.responses.tolist() == [response]


def test_last_mask_completes_even_when_wrong():
    response = [SPACE, 5, SPACE, 6, SPACE, 6, SPACE, MASK]
    assert step(response, 7, 5).complete.all()
    wrong = step(response, 7, 6)
    assert wrong.complete.all() and wrong.errors.all()


def test_several_positions_by_hand():
    """Tail, a definite right digit, a right one that is not, a wrong one: λ + 1 + 0 + 0."""
    response, definite = [MASK, MASK, MASK, MASK, MASK, MASK, MASK, 5], [True, False, True, False]
    positions, tokens = [2, 5, 3, 1, -1], [MASK - 1, 6, 6, SPACE, MASK]
    for on_error, written in (("end", SPACE), ("correct", 5)):
        after = step(response, positions, tokens, definite, lam=0.25, on_error=on_error)
        assert after.rewards.tolist() == [1.25]
        assert after.errors.tolist() == [True] and after.complete.tolist() == [False]
        assert np.argwhere(after.wrong).tolist() == [[0, 1]]
        assert after.responses.tolist() == [[MASK, written, MASK - 1, 6, MASK, 6, MASK, 5]]
    assert step(response, list(range(7)), [5] * 7, on_error="correct").complete.all()


def test_rows_of_different_numbers_of_positions():
    """What a batch does is what its rows do alone."""
    responses = np.full((3, 8), MASK)
    responses[1, 0] = SPACE
    positions, tokens = np.array([[0, 1, 3], [1, -1, -1], [7, -1, 5]]), np.array([[6, 5, 5], [5, 0, 0], [5, MASK, 5]])
    definite = np.array([[True] * 4, [True, False, True, False], [False, True, False, True]])
    after = steps(responses, positions, tokens, definite)
    assert after.rewards.tolist() == [0.5 + 1 + 0, 1, 1 + 0]
    assert after.errors.tolist() == [True, False, True]
    for row in range(3):
        alone = step(responses[row], positions[row], tokens[row], definite[row])
        for one, all_ in zip(alone, after, strict=True):
            np.testing.assert_array_equal(one[0], all_[row])


@given(st.integers(0, 2**32).map(np.random.default_rng))
def test_expected_reward_is_f(rng):
    """Σ_a π(a|s) r(s, a) over every action equals λ Σ_{S2} π(ℓ) + Σ_{S1} π(ℓ) π(y*|ℓ) of the same random policy."""
    vocabulary, lam = MASK + 1, float(rng.uniform(0, 2))
    response = np.where(rng.random(8) < 0.6, MASK, SPACE)
    response[rng.integers(8)] = MASK
    definite = rng.random(4) < 0.5
    masked = np.flatnonzero(response == MASK)
    position_policy = rng.dirichlet(np.ones(len(masked)))
    token_policy = rng.dirichlet(np.ones(vocabulary - 1), size=len(masked))  # the mask, the last id, excluded

    positions, tokens = np.repeat(masked, vocabulary - 1), np.tile(np.arange(vocabulary - 1), len(masked))
    count = len(positions)
    rewards = steps(np.tile(response, (count, 1)), positions, tokens, np.tile(definite, (count, 1)), lam=lam).rewards
    mean = (position_policy[:, None] * token_policy * rewards.reshape(len(masked), -1)).sum()

    f, answers = 0.0, DIGITS[SOLUTION - 1]
    for position, share, policy in zip(masked, position_policy, token_policy, strict=True):
        if position not in CELLS:
            f += lam * share
        else:
            f += share * (definite * policy[answers])[CELLS == position].item()
    assert mean == pytest.approx(f, abs=1e-12)
