"""`SudokuUnmask-v0` with a guard, against the enumeration of all 4×4 grids and a loop over units."""

import gymnasium
import numpy as np
import pytest

from sudoku_env import PuzzlePool, generate
from tests.sudoku_env.helpers.every_grid import may_stand

UNMASK = "sudoku_env:SudokuUnmask-v0"
FEW = PuzzlePool(generate(40, size=4, clues=(0, 5), answers="any", seed=0))


@pytest.mark.parametrize("guard", ["completable", "rules"])
def test_a_pair_that_may_not_stand_with_those_before_it_stays_masked_and_earns_nothing(guard):
    env = gymnasium.make(UNMASK, source=FEW, answers="any", guard=guard, tokens_per_step=3, lam=0).unwrapped
    rng, refused = np.random.default_rng(0), 0
    layout = env.responses.start(0).layout
    cell_at = dict(zip(layout.cell_positions.tolist(), range(16), strict=True))
    digit_of = dict(zip(layout.digit_ids.tolist(), range(1, 5), strict=True))
    tokens = [*digit_of, env.tokenizer.eos_token_id]
    for number in range(40):
        _, info = env.reset(options={"index": number})
        board, masks, over = env.responses.boards[number].copy(), int(info["masked"].sum()), False
        while not over:
            masked = rng.permutation(np.flatnonzero(info["masked"]))[:3]
            action = np.full((3, 2), [-1, 0])
            action[: len(masked)] = np.stack([masked, rng.choice(tokens, len(masked))], 1)
            expected = np.zeros(env.max_gen_length, dtype=np.int8)
            for position, token in action[: len(masked)].tolist():
                if position in cell_at:
                    after = board.copy()
                    after[cell_at[position]] = digit_of.get(token, 0)
                    expected[position] = token not in digit_of or not may_stand(after, guard)
                    board = board if expected[position] else after
            _, reward, over, _, info = env.step(action)
            assert info["refused"].tolist() == expected.tolist() and not info["illegal"]
            np.testing.assert_array_equal(env.layout.read_boards(env.state), board)
            assert not info["error"] or guard == "rules"
            assert reward == 0 or expected[masked].sum() < len(masked)
            refused += expected.sum()
        assert info["error"] or not info["masked"].any() or info["steps"] == 2 * masks
    assert refused > 40


def test_only_what_is_refused_for_ever_takes_all_steps():
    env = gymnasium.make(UNMASK, source=FEW, answers="any", guard="rules", max_steps=7).unwrapped
    _, info = env.reset(seed=0)
    cell, over = next(cell for cell in env.layout.cell_positions if info["masked"][cell]), False
    while not over:  # the end token in a cell
        _, reward, over, _, info = env.step(np.array([cell, env.tokenizer.eos_token_id]))
        assert (reward, info["refused"][cell], info["masked"][cell], info["error"]) == (0, 1, 1, False)
    assert info["steps"] == 7
