"""Environments in which every solution of a puzzle is right, against the enumeration of all 4×4 grids."""

import gymnasium
import numpy as np
import pytest

from sudoku_env import (
    BoardRules,
    FlatUnmask,
    PromptPool,
    PuzzlePool,
    Puzzles,
    Responses,
    SudokuError,
    UnmaskRules,
    completable,
    generate,
    sample_legal,
)
from sudoku_env.board import is_solved
from sudoku_env.errors import BoardError, PuzzleParseError
from sudoku_env.logic import definite_digits
from tests.sudoku_env.helpers.every_grid import backbone_of, solutions_of
from tests.sudoku_env.helpers.sources import pool_of

BOARD, UNMASK = "sudoku_env:Sudoku-v0", "sudoku_env:SudokuUnmask-v0"
FEW = PuzzlePool(generate(40, size=4, clues=(0, 5), answers="any", seed=0))
LAM = 0.25


def unmask(source=FEW, **arguments):
    arguments = {"source": source, "answers": "any", "lam": LAM} | arguments
    return gymnasium.make(UNMASK, disable_env_checker=True, **arguments).unwrapped


def board_of(env, obs):
    """The board of a response, -1 for a token that is no digit."""
    return env.layout.read_boards(obs[-(env.layout.prompt_length + env.max_gen_length) :])


def random_decision(env, info, rng, k):
    """Up to k pairs of a masked position and a token, mostly a digit that clashes with nothing."""
    board = board_of(env, env.state)
    cell_at = {int(position): cell for cell, position in enumerate(env.layout.cell_positions)}
    rows = np.full((k, 2), [-1, 0])
    masked = np.flatnonzero(info["masked"])
    chosen = rng.permutation(masked)[: rng.integers(1, min(k, len(masked)) + 1)]
    for row, position in zip(rows, chosen, strict=False):
        digit = rng.integers(1, 5)
        if position in cell_at and rng.random() < 0.9:
            every = solutions_of(board)
            digit = every[rng.integers(len(every))][cell_at[int(position)]]
        token = env.layout.digit_ids[digit - 1] if rng.random() < 0.97 else env.tokenizer.eos_token_id
        row[:] = position, token
    return rows if k > 1 else rows[0]


@pytest.mark.parametrize("rule", [None, "singles"])
@pytest.mark.parametrize("k", [1, 3])
def test_a_decision_is_wrong_as_a_whole_and_earns_by_what_all_solutions_share(k, rule):
    env, rng = unmask(tokens_per_step=k, rule=rule), np.random.default_rng(k)
    ends = {"error": 0, "complete": 0}
    for seed in range(60):
        obs, info = env.reset(seed=seed)
        over = False
        while not over:
            before = board_of(env, obs)
            definite = backbone_of(before) if rule is None else definite_digits(before.astype(np.uint8))
            expected = np.zeros(env.max_gen_length, dtype=int)
            expected[env.layout.cell_positions] = definite > 0
            assert (info["definite"] == expected).all()
            action = random_decision(env, info, rng, k)
            obs, reward, over, truncated, info = env.step(action)
            after, pairs = board_of(env, obs), [pair for pair in action.reshape(-1, 2) if pair[0] >= 0]
            error = (after < 0).any() or not len(solutions_of(after.clip(min=0)))
            earned = 0.0
            for position, token in pairs:
                cells = np.flatnonzero(env.layout.cell_positions == position)
                if not len(cells):
                    earned += LAM
                elif definite[cells[0]] and env.layout.digit_ids[definite[cells[0]] - 1] == token:
                    earned += 1.0
            assert (info["error"], reward, truncated) == (error, earned, False)
            assert over == (error or not info["masked"].any())
            differs = (after != env.solution) & (after != 0)
            assert is_solved(env.solution) and differs.any() == error
            assert (info["wrong"][env.layout.cell_positions] == differs).all()
        ends["error" if error else "complete"] += 1
    assert min(ends.values()) > 3


@pytest.mark.parametrize("end_on", ["error", "dead_end"])
@pytest.mark.parametrize("rule", [None, "singles"])
def test_a_board_is_wrong_once_it_has_no_solution(end_on, rule):
    env = gymnasium.make(BOARD, source=FEW, answers="any", end_on=end_on, rule=rule).unwrapped
    rng = np.random.default_rng(0)
    ends = {"error": 0, "complete": 0}
    for seed in range(60):
        before, info = env.reset(seed=seed)
        over, error = False, False
        while not over:
            definite = backbone_of(before) if rule is None else definite_digits(before)
            assert (env.definite == ((definite > 0) & (not error))).all()
            action = sample_legal(info["action_mask"], rng)
            after, reward, over, truncated, info = env.step(action)
            cell, digit = divmod(int(action), 4)
            assert reward == float(not error and definite[cell] == digit + 1) and not truncated
            error = not len(solutions_of(after))
            assert info["error"] == error and (end_on == "dead_end" or over == (error or bool(after.all())))
            agrees = ((after == 0) | (env.solution == after)).all()
            assert agrees == (not error) and is_solved(env.solution)
            before = after
        ends["error" if error else "complete"] += 1
    assert min(ends.values()) > 3


@pytest.mark.parametrize("k", [1, 4])
def test_an_agent_that_is_no_language_model_fills_blank_boards_in_many_ways(k):
    """It draws decisions of up to k cells and takes the first that leaves a solution."""
    env, rng = unmask(pool_of_blank(), tokens_per_step=k), np.random.default_rng(0)
    grids = set()
    for seed in range(20):
        obs, info = env.reset(seed=seed)
        over = False
        while not over:
            board = board_of(env, obs)
            for _ in range(1000):
                cells = rng.permutation(np.flatnonzero(board == 0))[: rng.integers(1, k + 1)]
                digits = rng.integers(1, 5, size=len(cells))
                after = board.copy()
                after[cells] = digits
                if completable(after[None])[0]:
                    break
            tail = np.flatnonzero(info["masked"])
            rows = np.full((k, 2), [-1, 0])
            if len(cells):
                rows[: len(cells)] = np.stack([env.layout.cell_positions[cells], env.layout.digit_ids[digits - 1]], 1)
            else:
                rows[0] = tail[0], env.tokenizer.eos_token_id
            obs, _, over, _, info = env.step(rows if k > 1 else rows[0])
            assert not info["error"] and not info["illegal"]
        grid = board_of(env, obs)
        assert is_solved(grid.astype(np.uint8)) and not info["masked"].any()
        grids.add(grid.tobytes())
    assert len(grids) > 5


def pool_of_blank():
    return PromptPool(["sudoku 4x4 " + "." * 16], answers="any")


def test_prompts_of_the_environment_say_that_any_solution_is_right():
    env = unmask(max_gen_length=48)
    _, info = env.reset(seed=0)
    assert env.tokenizer.decode(env.state[: info["prompt_length"]]).strip().endswith("any solution")
    env = unmask(PromptPool(["Sudoku: 1............... Good luck"], "any"))
    env.reset()
    assert "Good luck" in env.tokenizer.decode(env.state) and env.layout.answers == "any"


def test_flat_actions_play_it():
    """Each in the order of the cells, by the digits of a solution that the environment need not have in mind."""
    env, rng = FlatUnmask(unmask(), observation="compact"), np.random.default_rng(0)
    layout = env.unwrapped.responses.layouts()[0]
    for seed in range(10):
        obs, info = env.reset(seed=seed)
        every = solutions_of(obs[:16])
        grid, over = every[rng.integers(len(every))], False
        while not over:
            action = np.flatnonzero(info["action_mask"])[0]
            position, _ = env.actions.decode(action)
            for cell in np.flatnonzero(layout.cell_positions == position):
                action = env.actions.encode([position, layout.digit_ids[grid[cell] - 1]])
            obs, _, over, _, info = env.step(action)
        assert not info["error"] and (obs[:16] == grid).all()


def test_rules_by_which_a_cell_would_be_wrong_by_itself_are_refused():
    for rules in (UnmaskRules(on_error="correct"), UnmaskRules(take_back=True)):
        for make in (gymnasium.make, lambda *args, **more: gymnasium.make_vec(*args, num_envs=2, **more)):
            with pytest.raises(SudokuError, match='does not go with answers="any"'):
                make(UNMASK, responses=Responses(FEW, answers="any"), rules=rules)
    for make in (lambda: UnmaskRules(rule="luck"), lambda: BoardRules(rule="luck")):
        with pytest.raises(BoardError, match="rule 'luck' is unknown"):
            make()
    for make in (lambda: BoardRules(answers="all"), lambda: Responses(FEW, answers="all")):
        with pytest.raises(SudokuError, match="answers='all' is unknown"):
            make()


def test_without_any_boards_with_several_solutions_are_refused_with_the_remedy():
    with pytest.raises(PuzzleParseError, match='pass answers="any"'):
        gymnasium.make(UNMASK, source=PuzzlePool(Puzzles.of(["1..............."], "any")))
    with pytest.raises(BoardError, match='pass answers="any"'):
        gymnasium.make(BOARD, source=PromptPool(["sudoku 4x4 1..............."]))


@pytest.mark.parametrize("rule", ["naked_single", "backbone"])
def test_a_rule_can_be_asked_for_where_there_is_one_solution_too(rule):
    """Right digits in blank order earn 1 where the rule gives them, on both boards and responses."""
    source = pool_of(["1...|..3.|.1..|...2"])
    board = gymnasium.make(BOARD, source=source, rule=rule).unwrapped
    env = gymnasium.make(UNMASK, source=source, rule=rule, disable_env_checker=True).unwrapped
    before, _ = board.reset(seed=0)
    env.reset(seed=0)
    earned = []
    for cell in np.flatnonzero(before == 0):
        digit = int(board.solution[cell])
        definite = board.definite
        _, reward, *_ = board.step(cell * 4 + digit - 1)
        _, same, *_ = env.step(np.array([env.layout.cell_positions[cell], env.layout.digit_ids[digit - 1]]))
        assert reward == same == float(definite[cell])
        earned.append(reward)
    assert sum(earned) == 12 if rule == "backbone" else 0 < sum(earned) < 12
