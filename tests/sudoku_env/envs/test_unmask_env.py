import copy
from functools import partial

import gymnasium
import numpy as np
import pytest

from sudoku_env import build_prompt, count_solutions, definite_digits, generate, parse_board
from sudoku_env.envs.sources import PromptPool, PuzzlePool
from sudoku_env.errors import SudokuError, TokenLayoutError
from sudoku_env.prompts.char_tokenizer import CharTokenizer
from sudoku_env.prompts.tokens import detect_definite, judge_error
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.environments import UNMASK, bare, response, right, right_at, tail, wrong
from tests.sudoku_env.helpers.singles import singles_rounds
from tests.sudoku_env.helpers.sources import fixed_pool

LOOSE = parse_board("1...|..3.|.1..|...2")
PROMPTS = [build_prompt(LOOSE, "compact"), build_prompt(parse_board("1..4|..12|21..|.3.."), "short")]
SOURCE = PromptPool(PROMPTS)


make = partial(bare, UNMASK)


def mostly_right(env, info, rng):
    """A masked position with the solution's digit, or now and then any token."""
    position = rng.choice(np.flatnonzero(info["masked"]))
    if position in env.layout.cell_positions and rng.random() < 0.9:
        return right_at(env, position)
    token = rng.integers(env.vocabulary - 1)
    return [position, token + (token >= env.mask_id)]


def test_rewards_by_hand():
    env = make(source=SOURCE, lam=0.25)
    obs, info = env.reset(seed=0, options={"index": 0})
    assert info["steps"] == 0 and not info["error"] and not info["illegal"]
    definite = np.flatnonzero(definite_digits(LOOSE))
    assert np.flatnonzero(info["definite"]).tolist() == env.layout.cell_positions[definite].tolist()
    loose = int(np.setdiff1d(np.flatnonzero(LOOSE == 0), definite)[0])

    obs, reward, terminated, truncated, info = env.step(right(env, loose))
    assert (reward, terminated, truncated) == (0.0, False, False)  # right, but not definite
    position, token = right(env, loose)
    assert obs[-env.max_gen_length :][position] == token
    position = np.flatnonzero(info["definite"])[0]
    assert env.step(right_at(env, position))[1:3] == (1.0, False)  # definite and right
    assert env.step(tail(env, token=50))[1:3] == (0.25, False)  # outside the map
    blank = int(np.flatnonzero(response(env)[env.layout.cell_positions] == env.mask_id)[0])
    _, reward, terminated, truncated, info = env.step(wrong(env, blank))
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["error"] and info["steps"] == 4 and not info["definite"].any()


def test_a_token_that_is_no_digit_is_an_error_in_the_map():
    env = make(source=SOURCE)
    _, info = env.reset(seed=0)
    position = np.flatnonzero(info["definite"])[0]
    _, reward, terminated, _, info = env.step([position, env.tokenizer.encode("a")[0]])
    assert (reward, terminated, info["error"]) == (0.0, True, True)


@pytest.mark.parametrize("what", ["a filled position", "the mask token"])
def test_illegal_actions_end_the_episode_and_change_nothing(what):
    env = make(source=SOURCE, illegal_reward=-3.0)
    obs, info = env.reset(seed=0)
    masked, token = (False, 7) if what == "a filled position" else (True, env.mask_id)
    action = [np.flatnonzero(info["masked"] == masked)[0], token]
    after, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated) == (-3.0, True, False)
    assert info["illegal"] and not info["error"] and info["steps"] == 0
    np.testing.assert_array_equal(after, obs)


def test_actions_outside_the_space_and_after_the_end_are_refused():
    env = make(source=SOURCE)
    refused("reset", lambda: env.step([0, 5]), gymnasium.error.ResetNeeded)
    env.reset(seed=0)
    for action in ([-1, 5], [env.max_gen_length, 5], [0, -1], [0, env.vocabulary]):
        with pytest.raises(gymnasium.error.InvalidAction, match="outside"):
            env.step(np.array(action))
    refused("expected integers", lambda: env.step(np.array([0.5, 5.0])), gymnasium.error.InvalidAction)
    env.step([0, env.mask_id])
    refused("reset", lambda: env.step([0, 5]), gymnasium.error.ResetNeeded)


@pytest.mark.parametrize("size", [4, 6, 9])
def test_filling_definite_cells_first_solves_it_with_full_reward(size):
    env = make(source=fixed_pool(size))
    for seed in range(3):
        _, info = env.reset(seed=seed)
        assert singles_rounds(env.layout.puzzle) > 0 and count_solutions(env.layout.puzzle) == 1
        blanks = int((env.layout.puzzle == 0).sum())
        total, terminated = 0.0, False
        while not terminated:
            position = np.flatnonzero(info["definite"] if info["definite"].any() else info["masked"])[0]
            _, reward, terminated, _, info = env.step(right_at(env, position))
            total += reward
        assert total == blanks + 4 * 0.5
        assert not info["error"] and not info["masked"].any() and info["steps"] == blanks + 4


def test_info_agrees_with_the_functions_on_states():
    rng = np.random.default_rng(3)
    env = make(source=SOURCE)
    ends = set()
    for seed in range(12):
        obs, info = env.reset(seed=seed)
        over = False
        while not over:
            obs, _, over, _, info = env.step(mostly_right(env, info, rng))
            state = obs[-(info["prompt_length"] + env.max_gen_length) :]
            np.testing.assert_array_equal(state, env.state)
            assert judge_error(state, env.layout) == info["error"]
            assert info["map_range"] == env.layout.map_range
            np.testing.assert_array_equal(info["masked"], obs[-env.max_gen_length :] == env.mask_id)
            if not info["error"]:
                assert np.flatnonzero(info["definite"]).tolist() == detect_definite(state, env.layout)
        ends.add(info["error"])
    assert ends == {True, False}


def test_prompts_of_different_length_share_one_space():
    env = make(source=SOURCE)
    lengths = []
    for index in (0, 1):
        obs, info = env.reset(seed=0, options={"index": index})
        lengths.append(info["prompt_length"])
        padding = len(obs) - env.max_gen_length - info["prompt_length"]
        assert (obs[:padding] == env.tokenizer.pad_token_id).all()
        assert obs[padding] != env.tokenizer.pad_token_id
        assert obs in env.observation_space
        assert PROMPTS[index] in env.tokenizer.decode(obs[padding : -env.max_gen_length].tolist())
    assert lengths[0] != lengths[1] and max(lengths) == env.max_prompt_length


def test_expected_reward_over_all_actions_is_f():
    """Every legal action is really taken; the mean under a random tabular policy must be f(s) of docs/objective.md."""
    rng = np.random.default_rng(11)
    env = make(source=PromptPool(PROMPTS[:1]), lam=0.3)
    for filled in (0, 3, 9):
        _, info = env.reset(seed=0)
        prefix = []
        for _ in range(filled):
            cells = np.flatnonzero(info["masked"][env.layout.cell_positions])
            positions = [*env.layout.cell_positions[cells], *range(env.max_gen_length - 4, env.max_gen_length)]
            prefix.append(right_at(env, rng.choice([p for p in positions if info["masked"][p]])))
            _, _, over, _, info = env.step(prefix[-1])
            assert not over
        masked, definite = np.flatnonzero(info["masked"]), info["definite"]
        tokens = [token for token in range(env.vocabulary) if token != env.mask_id]
        position_policy = rng.dirichlet(np.ones(len(masked)))
        token_policy = np.zeros((len(masked), env.vocabulary))
        token_policy[:, tokens] = rng.dirichlet(np.ones(len(tokens)), size=len(masked))

        mean, f = 0.0, 0.0
        for position, share, policy in zip(masked, position_policy, token_policy, strict=True):
            for token in tokens:
                env.reset()
                for action in prefix:
                    env.step(action)
                mean += share * policy[token] * env.step([position, token])[1]
            if position not in env.layout.cell_positions:
                f += 0.3 * share
            elif definite[position]:
                f += share * policy[right_at(env, position)[1]]
        assert f > 0
        assert mean == pytest.approx(f, abs=1e-12)


def test_puzzles_come_from_a_pool():
    for pool, most, least in (
        (fixed_pool(4), 500, 20),
        (PuzzlePool(generate(2, size=4, clues=(6, 7), rule="singles", seed=0)), 2, 2),
    ):
        env, drawn = make(source=pool), set()
        for seed in range(30):
            _, info = env.reset(seed=seed)
            assert info["prompt_length"] <= env.max_prompt_length
            drawn.add(env.layout.puzzle.tobytes())
        assert drawn <= {board.tobytes() for board in pool.puzzles.boards} and least <= len(drawn) <= most


def test_masks_for_other_libraries():
    env = make(source=SOURCE)
    for ask in (env.action_masks, env.render, lambda: env.state):
        refused("reset", ask, gymnasium.error.ResetNeeded)
    _, info = env.reset(seed=0)
    mask = env.action_masks()
    assert mask.dtype == bool and mask.shape == (env.action_space.nvec.sum(),)
    np.testing.assert_array_equal(mask[: env.max_gen_length], info["masked"])
    assert np.flatnonzero(~mask[env.max_gen_length :]).tolist() == [env.mask_id]


def test_bad_reset_options_and_lengths():
    env = make(source=SOURCE)
    refused("index 2 is outside the 2 puzzles that can be picked", lambda: env.reset(options={"index": 2}), SudokuError)
    refused("'prompt'", lambda: env.reset(options={"prompt": 0}), SudokuError)
    refused("larger max_prompt_length", lambda: make(max_prompt_length=10), TokenLayoutError)
    refused("larger max_prompt_length", lambda: make(max_prompt_length=10, source=SOURCE), TokenLayoutError)


def test_padding_token():
    class NoPad(CharTokenizer):
        pad_token_id = None

    class Neither(NoPad):
        eos_token_id = None

    env = make(source=SOURCE, tokenizer=NoPad())
    obs, _ = env.reset(options={"index": int(np.argmin([len(prompt) for prompt in PROMPTS]))})
    assert obs[0] == NoPad.eos_token_id
    refused("pad_token", lambda: make(source=SOURCE, tokenizer=Neither()), TokenLayoutError)


def test_a_copy_shares_what_does_not_change():
    env = make(source=SOURCE)
    twin = copy.deepcopy(env)
    assert twin is not env and twin.rules is not env.rules
    assert (twin.responses, twin.tokenizer, twin.source) == (env.responses, env.tokenizer, env.source)
