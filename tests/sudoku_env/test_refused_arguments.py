"""What environments, roll-outs and readers are given and cannot use is refused with an error that names it."""

import math

import gymnasium
import numpy as np
import pytest

from sudoku_env import SudokuEnv, SudokuError, SudokuVectorEnv, UnmaskEnv, default_puzzles, read_prompts
from sudoku_env.envs.sources import PromptPool, PuzzlePool
from sudoku_env.envs.unmask_rules import UnmaskRules
from sudoku_env.envs.unmask_vector_env import SudokuUnmaskVectorEnv
from sudoku_env.envs.wrappers import FlatUnmask, FlatUnmaskVector
from sudoku_env.errors import PromptSetError
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.environments import BOARD, UNMASK, bare
from tests.sudoku_env.helpers.sources import fixed_pool

BAD_NUMBERS = [math.nan, math.inf, -math.inf, "0.5", None, [0.5]]
PROMPTS = ["sudoku 4x4 1.....3..1.....2"]
INVALID = gymnasium.error.InvalidAction


OTHER_SHAPES = [[30, 6, 7], [30], 30, [], [[30, 6]], [[30], [6, 7]], None, {"position": 30}]
OTHER_TYPES = [[30.0, 6.0], [math.nan, 6], ["30", "6"], [None, None], [True, False]]
OUTSIDE = [[-1, 6], [10**6, 6], [20, -1], [20, 10**6], np.array([2**63, 6], dtype=np.uint64)]
PAIR = r"expected integers of shape \(2,\), a response position and a token, got .*action"
ACTIONS = [
    *((UNMASK, action, PAIR) for action in OTHER_SHAPES + OTHER_TYPES),
    *((UNMASK, action, "outside MultiDiscrete") for action in OUTSIDE),
    *(
        (BOARD, action, "expected an integer, got .*action")
        for action in (0.0, math.nan, "0", None, [0], [0, 1], np.zeros(2, dtype=int))
    ),
]


@pytest.mark.parametrize(("name", "action", "message"), ACTIONS)
def test_an_environment_takes_integers_of_its_shape_and_range_alone(name, action, message):
    env = bare(name, source=fixed_pool(4))
    env.reset(seed=0)
    before = getattr(env, "state", None)
    refused(message, lambda: env.step(action), INVALID)
    assert name == BOARD or (env.state == before).all()


@pytest.mark.parametrize(("name", "width"), [(UNMASK, (2,)), (BOARD, ())])
@pytest.mark.parametrize("wrong", ["entries", "rows", "floats", "not a number", "ragged", "bools", "nothing"])
def test_vector_environments_take_integers_of_their_shape_alone(name, width, wrong):
    envs = gymnasium.make_vec(name, num_envs=3, source=fixed_pool(4))
    envs.reset(seed=0)
    shape = (3, *width)
    actions = {
        "entries": np.zeros((*shape, 3) if not width else (3, 3), dtype=np.int64),
        "rows": np.zeros((2, *width), dtype=np.int64),
        "floats": np.zeros(shape),
        "not a number": np.full(shape, math.nan),
        "ragged": [[0], [0, 1], [0]],
        "bools": np.zeros(shape, dtype=bool),
        "nothing": None,
    }[wrong]
    refused(r"expected integers of shape \(3,", lambda: envs.step(actions), INVALID)


def flat_ones():
    """An environment and a vector of two, begun."""
    env, envs = gymnasium.make(UNMASK, source=fixed_pool(4)), gymnasium.make_vec(UNMASK, 2, source=fixed_pool(4))
    made = FlatUnmask(env), FlatUnmaskVector(envs)
    for flat in made:
        flat.reset(seed=0)
    return made


@pytest.mark.parametrize("action", [0.0, math.nan, None, [[0], [0, 1]], -1, 10**6])
def test_flat_environments_take_numbers_of_their_table_alone(action):
    for flat in flat_ones():
        with pytest.raises(INVALID):
            flat.step(action)


def test_flat_environments_name_the_shape_that_they_were_given():
    env, envs = flat_ones()
    told = "expected integers of shape"
    refused(rf"{told} \(\), .* with shape \(3,\): action \[1, 2, 3\]$", lambda: env.step([1, 2, 3]), INVALID)
    refused(rf"{told} \(2,\), .* with shape \(\): action 1$", lambda: envs.step(1), INVALID)
    refused(rf"{told} \(2,\), .* with shape \(1, 2\): action \[\[1, 2\]\]$", lambda: envs.step([[1, 2]]), INVALID)


MAKE = {
    BOARD: (SudokuEnv, lambda **options: SudokuVectorEnv(2, **options)),
    UNMASK: (UnmaskEnv, lambda **options: SudokuUnmaskVectorEnv(2, **options)),
}
TAKE_BACK = {"take_back": True, "error_cost": 0.75}
OF_BOTH = [
    ({"source": PROMPTS}, "must be a PuzzleSource, got list"),
    ({"source": default_puzzles(4)}, "must be a PuzzleSource, got Puzzles; pass PuzzlePool"),
    ({"render_mode": "svg"}, "'svg' is unknown"),
    *[({"illegal_reward": number}, "illegal_reward must be a finite number, got") for number in BAD_NUMBERS],
]
OF_ONE = [
    (BOARD, {"end_on": "full"}, "end_on 'full' is unknown"),
    (UNMASK, {"source": PuzzlePool(default_puzzles(4), shuffled=True)}, "pass shuffled=False"),
    (UNMASK, {"source": PromptPool(PROMPTS), "max_gen_length": 12}, "max_gen_length=12"),
    *[(UNMASK, {"lam": lam}, "lam must be 0 or larger and finite, got") for lam in [*BAD_NUMBERS, -0.5]],
    *[
        (UNMASK, {"tokens_per_step": count}, "tokens_per_step must be an integer of at least 1, got")
        for count in (0, -1, 1.5, True, "2", None)
    ],
    *[
        (UNMASK, {"on_error": way}, r"on_error=.* is unknown; use one of \('end', 'correct'\)")
        for way in ("continue", "", None, True)
    ],
    (UNMASK, {**TAKE_BACK, "take_back": 1}, "take_back must be True or False"),
    (UNMASK, {**TAKE_BACK, "error_cost": 0}, "error_cost must be larger than 0 and finite, got 0"),
    (UNMASK, {**TAKE_BACK, "error_cost": math.inf}, "error_cost must be larger than 0 and finite, got inf"),
    (UNMASK, {**TAKE_BACK, "error_cost": "1"}, "error_cost must be larger than 0"),
    (UNMASK, {**TAKE_BACK, "max_steps": 0}, "max_steps must be an integer of at least 1, got 0"),
    (UNMASK, {**TAKE_BACK, "max_steps": 2.0}, "max_steps must be an integer of at least 1"),
    (UNMASK, {**TAKE_BACK, "on_error": "correct"}, "on_error='correct' does not go with take_back=True"),
    (UNMASK, {"error_cost": 0.75}, "error_cost=0.75 and max_steps=None are for take_back=True"),
    (UNMASK, {"max_steps": 9}, "error_cost=None and max_steps=9 are for"),
    (UNMASK, {"guard": "solver"}, "guard='solver' is unknown"),
    (UNMASK, {"guard": "rules", "take_back": True}, "guard='rules' refuses what take_back="),
    (UNMASK, {"guard": "rules", "on_error": "correct"}, "guard='rules' refuses what take_back="),
]


@pytest.mark.parametrize(
    ("name", "arguments", "message"), [(name, *case) for name in MAKE for case in OF_BOTH] + OF_ONE
)
def test_arguments_that_do_not_fit_are_refused(name, arguments, message):
    for make in MAKE[name]:
        with pytest.raises(SudokuError, match=message):
            make(**({"source": fixed_pool(4)} | arguments))


@pytest.mark.parametrize("lam", [*BAD_NUMBERS, -0.5])
def test_a_lambda_is_checked_where_a_roll_out_takes_it(lam):
    refused("lam must be 0 or larger and finite, got", lambda: UnmaskRules(lam=lam), SudokuError)
    assert [UnmaskRules(lam=good).lam for good in (0, 1, np.float32(0.5), 2.5)] == [0.0, 1.0, 0.5, 2.5]


@pytest.mark.parametrize("line", ["[" * 100_000, '{"prompt":' * 100_000, '{"prompt": ' + "1" * 5000 + "}"])
def test_json_that_cannot_be_read_is_refused_with_file_and_line(tmp_path, line):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}\n' + line + "\n")
    refused(r"prompts\.jsonl, line 2: not JSON", lambda: read_prompts(path), PromptSetError)
