import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sudoku_env import FlatUnmask, FlatUnmaskVector, PromptPool, SudokuError, SudokuUnmaskVectorEnv, parse_board
from sudoku_env.prompts.char_tokenizer import CharTokenizer
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.environments import BOARD, UNMASK
from tests.sudoku_env.helpers.sources import fixed_pool

PUZZLE = parse_board("1..4|..12|21..|.3..")  # row 1 misses 2 and 3
PROMPTS = ["sudoku 4x4 1..4..1221...3..", "sudoku 4x4 1..4..12214..3.."]
SIX = "sudoku 6x6 ..3..5..1.2324536...6..2.625......3."
BLANKS = [1, 2, 4, 5, 10, 11, 12, 14, 15]  # of the first prompt, and of both together
EOS, A, B = CharTokenizer.eos_token_id, *CharTokenizer().encode("ab")


def make(*, observation="tokens", tail_tokens=None, **arguments):
    arguments = arguments or {"source": PromptPool(PROMPTS)}
    return FlatUnmask(gymnasium.make(UNMASK, **arguments), tail_tokens, observation)


@pytest.mark.parametrize("size", [4, 9])
def test_actions_begin_with_those_of_sudoku(size):
    env = make(source=fixed_pool(size))
    env.reset(seed=0)
    layout = env.unwrapped.layout
    assert env.action_space.n == size**3 + 4  # four free positions, the end token
    for action in range(size**3):
        cell, digit = divmod(action, size)
        assert env.actions.decode(action).tolist() == [layout.cell_positions[cell], layout.digit_ids[digit]]
    tail = env.actions.decode(np.arange(size**3, size**3 + 4))
    assert tail.tolist() == [[layout.map_range[1] + step, EOS] for step in range(4)]


def test_only_cells_that_can_be_blank_have_actions():
    env = make(tail_tokens=[EOS, A])
    env.reset(seed=0)
    layout = env.unwrapped.layout
    assert env.action_space.n == len(BLANKS) * 4 + 4 * 2
    cells = np.unique(env.actions.pairs[: len(BLANKS) * 4, 0])
    assert cells.tolist() == layout.cell_positions[BLANKS].tolist()
    assert env.actions.pairs[-2:].tolist() == [[layout.response_length - 1, EOS], [layout.response_length - 1, A]]
    assert env.actions.tokens.tolist() == [*layout.digit_ids, EOS, A]


def test_numbers_and_pairs_are_inverse():
    actions = make(tail_tokens=[EOS, A]).actions
    numbers = np.arange(len(actions)).reshape(2, -1)
    np.testing.assert_array_equal(actions.encode(actions.decode(numbers)), numbers)
    assert len(np.unique(actions.pairs, axis=0)) == len(actions)
    for pair in ([0, EOS], [actions.pairs[0, 0], EOS], [actions.pairs[-1, 0], B]):
        with pytest.raises(SudokuError, match="not in the table"):
            actions.encode(pair)
    refused(r"got \(3,\)", lambda: actions.encode([0, 1, 2]), SudokuError)
    for action in (-1, len(actions), 0.0, [0, len(actions)]):
        with pytest.raises(gymnasium.error.InvalidAction, match="not within"):
            actions.decode(action)


def test_an_episode_by_hand():
    env = make(observation="compact", tail_tokens=[A, EOS], lam=0.25, source=PromptPool(PROMPTS[:1]))
    obs, info = env.reset(seed=0)
    assert obs.tolist() == [*PUZZLE, 0, 0, 0, 0] and obs in env.observation_space
    assert env.observation_space.nvec.tolist() == [7] * 20  # mask, digits 1..4, two tail tokens
    assert info["action_mask"].dtype == np.int8 and info["action_mask"].all()
    layout = env.unwrapped.layout

    obs, reward, terminated, truncated, info = env.step(1)  # the first blank is cell 1, a definite 2
    assert (reward, terminated, truncated) == (1.0, False, False)
    assert obs[1] == 2
    assert info["action_mask"][:4].sum() == 0 and info["action_mask"][4:].all()
    np.testing.assert_array_equal(env.action_masks(), info["action_mask"] == 1)
    last = env.actions.encode([layout.response_length - 1, EOS])
    obs, reward, _, _, info = env.step(last)
    assert (reward, obs[-1]) == (0.25, 6)
    assert info["action_mask"][-2:].tolist() == [0, 0]
    after, reward, terminated, _, info = env.step(last)
    assert (reward, terminated, info["illegal"]) == (-1.0, True, True)
    np.testing.assert_array_equal(after, obs)


def test_it_is_the_same_environment():
    flat, plain = make(source=PromptPool(PROMPTS)), gymnasium.make(UNMASK, source=PromptPool(PROMPTS))
    rng = np.random.default_rng(0)
    for seed in range(5):
        (obs, info), (expected, _) = flat.reset(seed=seed), plain.reset(seed=seed)
        over = False
        while not over:
            np.testing.assert_array_equal(obs, expected)
            action = rng.choice(np.flatnonzero(info["action_mask"]))
            obs, reward, over, _, info = flat.step(action)
            expected, plain_reward, plain_over, _, plain_info = plain.step(flat.actions.decode(action))
            assert (reward, over) == (plain_reward, plain_over)
            np.testing.assert_array_equal(info["masked"], plain_info["masked"])


def test_a_response_without_free_positions_needs_no_tail_token():
    length = len("Solution:\n1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1")
    env = make(source=PromptPool(PROMPTS), max_gen_length=length, tail_tokens=[])
    assert env.action_space.n == len(BLANKS) * 4


@pytest.mark.parametrize(
    ("tail_tokens", "message"),
    [
        ([], "pass a tail token"),
        ([EOS, EOS], "twice"),
        ([CharTokenizer.mask_token_id], "is the mask"),
        (CharTokenizer().encode("1"), "a digit"),
        ([-1], "outside the vocabulary"),
        ([10_000], "outside the vocabulary"),
    ],
)
def test_tail_tokens_are_checked(tail_tokens, message):
    refused(message, lambda: make(tail_tokens=tail_tokens), SudokuError)


def test_nonsense_is_refused():
    refused("'boards' is unknown", lambda: make(observation="boards"), SudokuError)
    refused("differ in size", lambda: make(source=PromptPool([PROMPTS[0], SIX])), SudokuError)
    refused("Sudoku-v0 is flat as it is", lambda: FlatUnmask(gymnasium.make(BOARD)), SudokuError)
    several = "one pair, and the environment takes up to 2; leave out tokens_per_step"
    refused(several, lambda: make(source=fixed_pool(4), tokens_per_step=2), SudokuError)
    envs = SudokuUnmaskVectorEnv(2, source=fixed_pool(4), tokens_per_step=2)
    refused(several, lambda: FlatUnmaskVector(envs), SudokuError)
    sync = SyncVectorEnv([lambda: gymnasium.make(UNMASK, source=fixed_pool(4))])
    refused("takes FlatUnmask around each", lambda: FlatUnmaskVector(sync), SudokuError)


def test_corrected_errors_go_through():
    env = make(source=PromptPool(PROMPTS[:1]), on_error="correct", observation="compact")
    obs, _ = env.reset(seed=0)
    obs, reward, terminated, _, info = env.step(0)  # a 1 in cell 1, where a 2 belongs
    assert (obs[1], reward, terminated, info["error"]) == (2, 0.0, False, True)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_the_vector_has_the_spaces_and_masks_of_the_single_one(mode):
    env = make(observation="compact", source=fixed_pool(4))
    envs = FlatUnmaskVector(SudokuUnmaskVectorEnv(3, source=fixed_pool(4), autoreset_mode=mode), observation="compact")
    assert envs.single_action_space == env.action_space
    assert envs.single_observation_space == env.observation_space
    obs, infos = envs.reset(seed=1)
    assert obs in envs.observation_space and infos["action_mask"].shape == (3, env.action_space.n)
    np.testing.assert_array_equal(infos["action_mask"] == 1, envs.action_masks())
    obs, *_, infos = envs.step(np.array([np.flatnonzero(mask)[0] for mask in infos["action_mask"]]))
    assert obs in envs.observation_space
    np.testing.assert_array_equal(infos["action_mask"] == 1, envs.action_masks())
