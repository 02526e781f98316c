"""The objects that environments are made of, and the keywords that stand for their arguments."""

import dataclasses

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import data_equivalence

from sudoku_env import BoardRules, Responses, SudokuEnv, SudokuError, SudokuText, TextRules, UnmaskEnv, UnmaskRules
from sudoku_env.envs.unmask_vector_env import SudokuUnmaskVectorEnv
from sudoku_env.envs.vector_env import SudokuVectorEnv
from sudoku_env.testing import EnvConformance
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.environments import BOARD, UNMASK
from tests.sudoku_env.helpers.sources import fixed_pool, shuffled_pool

TEXT = "sudoku_env:SudokuText-v0"


class TestUnmaskEnvOfObjects(EnvConformance):
    def make(self, **arguments):
        return gymnasium.make(UNMASK, responses=Responses(size=4), rules=UnmaskRules(lam=0.25), **arguments)


@pytest.mark.parametrize(
    ("name", "pool", "size"),
    [(BOARD, shuffled_pool, 4), (BOARD, shuffled_pool, 6), (BOARD, shuffled_pool, 16), (UNMASK, fixed_pool, 4)],
)
def test_a_size_stands_for_the_puzzles_of_the_package_shuffled_or_in_words(name, pool, size):
    ours, same = gymnasium.make(name, size=size), gymnasium.make(name, source=pool(size))
    envs = gymnasium.make_vec(name, num_envs=2, size=size)
    for seed in (3, None):
        np.testing.assert_array_equal(ours.reset(seed=seed)[0], same.reset(seed=seed)[0])
    assert name == UNMASK or ours.unwrapped.size == envs.size == size
    np.testing.assert_array_equal(envs.reset(seed=3)[0][0], same.reset(seed=3)[0])


@pytest.mark.parametrize("make", [SudokuEnv, SudokuVectorEnv, UnmaskEnv, SudokuUnmaskVectorEnv])
def test_a_size_beside_a_source_or_without_puzzles_is_refused(make):
    refused("size=6 is for the puzzles of the package; leave", lambda: make(source=fixed_pool(4), size=6), SudokuError)
    refused("5", lambda: make(size=5), SudokuError)


def test_keywords_make_the_rules_that_they_are_arguments_of():
    assert SudokuEnv(end_on="dead_end").rules == BoardRules(end_on="dead_end")
    assert SudokuVectorEnv(2, illegal_reward=-2).rules == BoardRules(illegal_reward=-2.0)
    taken = {"lam": 1, "take_back": True, "max_steps": 3, "tokens_per_step": 2}
    assert UnmaskEnv(size=4, **taken).rules == SudokuUnmaskVectorEnv(2, size=4, **taken).rules == UnmaskRules(**taken)
    assert SudokuText(4, reward="cells", max_turns=3).rules == TextRules("cells", max_turns=3)


@pytest.mark.parametrize(
    ("rules", "costs"),
    [(UnmaskRules(), 0.0), (UnmaskRules(take_back=True), 1.0), (UnmaskRules(take_back=True, error_cost=0.5), 0.5)],
)
def test_rules_are_copied_with_changes_and_say_what_an_error_costs(rules, costs):
    assert rules.wrong_costs == costs
    assert dataclasses.replace(rules, lam=0.1) == UnmaskRules(**dataclasses.asdict(rules) | {"lam": 0.1})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (BOARD, {"end_on": "dead_end"}),
        (BOARD, {"rules": BoardRules("dead_end")}),
        (UNMASK, {"lam": 0.1}),
        (UNMASK, {"rules": UnmaskRules(0.1, tokens_per_step=2)}),
        (TEXT, {"rules": TextRules("cells", max_turns=5), "size": 4}),
    ],
)
def test_rules_go_through_the_json_of_a_spec(name, options):
    env = gymnasium.make(name, **options)
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert data_equivalence(env.reset(seed=3), again.reset(seed=3), exact=True)
    assert again.unwrapped.rules == env.unwrapped.rules and again.action_space == env.action_space


def test_environments_that_share_responses_play_apart():
    responses = Responses(fixed_pool(4))
    one, two = UnmaskEnv(responses), UnmaskEnv(responses, UnmaskRules(on_error="correct"))
    assert one.responses is two.responses
    before, _ = one.reset(seed=0)
    _, info = two.reset(seed=0)
    position = int(np.flatnonzero(info["definite"])[0])
    after = two.step(np.array([position, two.tokenizer.eos_token_id]))[0]
    assert not np.array_equal(after, before)
    np.testing.assert_array_equal(one.state, before[-len(one.state) :])
    np.testing.assert_array_equal(one.reset(seed=0)[0], before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: UnmaskEnv(rules=UnmaskRules(), lam=0.5),
            "rules was given, and so was lam, which belongs in it; pass one",
        ),
        (
            lambda: UnmaskEnv(Responses(size=4), tokenizer=None, size=4),
            "responses was given, and so was tokenizer, size",
        ),
        (lambda: SudokuText(4, rules=TextRules(), hint_cost=0.5), "rules was given, and so was hint_cost"),
        (lambda: UnmaskEnv(fixed_pool(4)), "responses must be Responses or a mapping .* got PuzzlePool; .* source,"),
        (
            lambda: SudokuEnv(rules=UnmaskRules()),
            "rules must be BoardRules or a mapping of its arguments, got UnmaskRules",
        ),
    ],
)
def test_a_part_beside_its_arguments_and_what_is_no_part_are_refused(make, message):
    refused(message, make, SudokuError)


@pytest.mark.parametrize("name", [BOARD, UNMASK, TEXT])
def test_a_keyword_of_no_part_is_refused_with_those_that_they_take(name):
    refused(r"unexpected keyword argument 'sise'; rules takes ", lambda: gymnasium.make(name, sise=4), TypeError)
