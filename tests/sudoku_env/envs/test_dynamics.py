import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudoku_env.envs.dynamics import step_batch, unmask_reward
from sudoku_env.errors import SudokuError

MASK, SPACE = 9, 0
CELLS = np.array([1, 3, 5, 7])  # a toy map of two digits in four cells, words at the even positions
DIGITS = np.array([5, 6])
SOLUTION = np.array([1, 2, 2, 1], dtype=np.uint8)


def step(response, position, token, definite=(False,) * 4, lam=0.5):
    return step_batch(
        np.array([response]),
        np.array([position]),
        np.array([token]),
        cell_positions=CELLS,
        digit_ids=DIGITS,
        mask_id=MASK,
        solutions=SOLUTION[None],
        definite=np.array([definite]),
        lam=lam,
    )


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


def test_input_is_left_alone():
    responses = np.full((1, 8), MASK)
    after = step_batch(
        responses,
        np.array([1]),
        np.array([5]),
        cell_positions=CELLS,
        digit_ids=DIGITS,
        mask_id=MASK,
        solutions=SOLUTION[None],
        definite=np.zeros((1, 4), dtype=bool),
        lam=0.5,
    )
    assert (responses == MASK).all()
    assert not np.shares_memory(responses, after.responses)


def test_no_response_at_all():
    nothing = np.zeros(0, dtype=np.int64)
    after = step_batch(
        np.zeros((0, 8), dtype=np.int64),
        nothing,
        nothing,
        cell_positions=CELLS,
        digit_ids=DIGITS,
        mask_id=MASK,
        solutions=np.zeros((0, 4), dtype=np.uint8),
        definite=np.zeros((0, 4), dtype=bool),
        lam=0.5,
    )
    assert after.responses.shape == (0, 8)
    assert after.rewards.shape == after.errors.shape == after.complete.shape == (0,)


@pytest.mark.parametrize(
    ("position", "token", "message"),
    [
        (-1, 5, "position -1 lies outside"),
        (8, 5, "position 8 lies outside"),
        (1, 5, "position 1 of response 0 is filled already"),
        (3, MASK, "mask token 9"),
    ],
)
def test_illegal_actions_are_named(position, token, message):
    with pytest.raises(SudokuError, match=message):
        step([MASK, 5] + [MASK] * 6, position, token)


def test_unsolved_puzzle_is_refused():
    with pytest.raises(SudokuError, match="response 0 has no solution"):
        step_batch(
            np.full((1, 8), MASK),
            np.array([1]),
            np.array([5]),
            cell_positions=CELLS,
            digit_ids=DIGITS,
            mask_id=MASK,
            solutions=np.zeros((1, 4), dtype=np.uint8),
            definite=np.zeros((1, 4), dtype=bool),
            lam=0.5,
        )


@given(seed=st.integers(0, 2**32 - 1))
def test_expected_reward_is_f(seed):
    """Σ_a π(a|s) r(s, a) over every action equals λ Σ_{S2} π(ℓ) + Σ_{S1} π(ℓ) π(y*|ℓ) of the same random policy."""
    rng = np.random.default_rng(seed)
    vocabulary, lam = MASK + 1, float(rng.uniform(0, 2))
    response = np.where(rng.random(8) < 0.6, MASK, SPACE)
    response[rng.integers(8)] = MASK
    definite = rng.random(4) < 0.5
    masked = np.flatnonzero(response == MASK)
    position_policy = rng.dirichlet(np.ones(len(masked)))
    token_policy = rng.dirichlet(np.ones(vocabulary - 1), size=len(masked))  # the mask, the last id, excluded

    positions, tokens = np.repeat(masked, vocabulary - 1), np.tile(np.arange(vocabulary - 1), len(masked))
    count = len(positions)
    rewards = step_batch(
        np.tile(response, (count, 1)),
        positions,
        tokens,
        cell_positions=CELLS,
        digit_ids=DIGITS,
        mask_id=MASK,
        solutions=np.tile(SOLUTION, (count, 1)),
        definite=np.tile(definite, (count, 1)),
        lam=lam,
    ).rewards
    mean = (position_policy[:, None] * token_policy * rewards.reshape(len(masked), -1)).sum()

    f = 0.0
    for index, position in enumerate(masked):
        cell = CELLS.tolist().index(position) if position in CELLS else None
        if cell is None:
            f += lam * position_policy[index]
        elif definite[cell]:
            f += position_policy[index] * token_policy[index, DIGITS[SOLUTION[cell] - 1]]
    assert mean == pytest.approx(f, abs=1e-12)
