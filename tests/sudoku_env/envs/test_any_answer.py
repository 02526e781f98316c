"""Environments in which every solution of a puzzle is right, against the enumeration of all 4×4 grids."""

from functools import partial

import gymnasium
import numpy as np
import pytest

from sudoku_env import BoardRules, FlatUnmask, PromptPool, PuzzlePool, Responses, UnmaskRules, completable, generate
from sudoku_env.board import is_solved
from sudoku_env.envs.sampling import sample_legal
from sudoku_env.errors import BoardError, PuzzleParseError, SudokuError
from sudoku_env.logic import definite_digits
from sudoku_env.puzzles import Puzzles
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers.environments import BOARD, UNMASK, bare, right
from tests.sudoku_env.helpers.every_grid import backbone_of, may_stand, solutions_of
from tests.sudoku_env.helpers.sources import pool_of

FEW = PuzzlePool(generate(40, size=4, clues=(0, 5), answers="any", seed=0))
LAM = 0.25


def unmask(source=FEW, **arguments):
    return bare(UNMASK, **{"source": source, "answers": "any", "lam": LAM} | arguments)


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
                if position not in env.layout.cell_positions:
                    earned += LAM
                else:
                    digit = definite[env.layout.cell_positions == position].item()
                    earned += digit > 0 and env.layout.digit_ids[digit - 1] == token
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
    env = bare(BOARD, source=FEW, answers="any", end_on=end_on, rule=rule)
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
            assert reward == (not error and definite[cell] == digit + 1) and not truncated
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
    blank = PromptPool(["sudoku 4x4 " + "." * 16], answers="any")
    env, rng = unmask(blank, tokens_per_step=k), np.random.default_rng(0)
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


@pytest.mark.parametrize("make", [gymnasium.make, partial(gymnasium.make_vec, num_envs=2)])
@pytest.mark.parametrize("rules", [UnmaskRules(on_error="correct"), UnmaskRules(take_back=True)])
def test_rules_by_which_a_cell_would_be_wrong_by_itself_are_refused(make, rules):
    responses = Responses(FEW, answers="any")
    refused('does not go with answers="any"', lambda: make(UNMASK, responses=responses, rules=rules), SudokuError)


def test_other_rules_and_answers_are_refused():
    refused("rule 'luck' is unknown", lambda: UnmaskRules(rule="luck"), BoardError)
    refused("rule 'luck' is unknown", lambda: BoardRules(rule="luck"), BoardError)
    refused("answers='all' is unknown", lambda: BoardRules(answers="all"), SudokuError)
    refused("answers='all' is unknown", lambda: Responses(FEW, answers="all"), SudokuError)


def test_without_any_boards_with_several_solutions_are_refused_with_the_remedy():
    several = PuzzlePool(Puzzles.of(["1..............."], "any"))
    refused('pass answers="any"', lambda: gymnasium.make(UNMASK, source=several), PuzzleParseError)
    asked = PromptPool(["sudoku 4x4 1..............."])
    refused('pass answers="any"', lambda: gymnasium.make(BOARD, source=asked), BoardError)


@pytest.mark.parametrize("rule", ["naked_single", "backbone"])
def test_a_rule_can_be_asked_for_where_there_is_one_solution_too(rule):
    """Right digits in blank order earn 1 where the rule gives them, on both boards and responses."""
    source = pool_of(["1...|..3.|.1..|...2"])
    board, env = bare(BOARD, source=source, rule=rule), bare(UNMASK, source=source, rule=rule)
    before, _ = board.reset(seed=0)
    env.reset(seed=0)
    earned = []
    for cell in np.flatnonzero(before == 0):
        definite = board.definite
        _, reward, *_ = board.step(cell * 4 + int(board.solution[cell]) - 1)
        _, same, *_ = env.step(right(env, cell))
        assert reward == same == float(definite[cell])
        earned.append(reward)
    assert sum(earned) == 12 if rule == "backbone" else 0 < sum(earned) < 12


# with a guard


@pytest.mark.parametrize("guard", ["completable", "rules"])
def test_a_pair_that_may_not_stand_with_those_before_it_stays_masked_and_earns_nothing(guard):
    env = unmask(guard=guard, tokens_per_step=3, lam=0)
    rng, kept_out = np.random.default_rng(0), 0
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
            kept_out += expected.sum()
        assert info["error"] or not info["masked"].any() or info["steps"] == 2 * masks
    assert kept_out > 40


def test_only_what_is_refused_for_ever_takes_all_steps():
    env = unmask(guard="rules", max_steps=7, lam=0)
    _, info = env.reset(seed=0)
    cell, over = next(cell for cell in env.layout.cell_positions if info["masked"][cell]), False
    while not over:  # the end token in a cell
        _, reward, over, _, info = env.step([cell, env.tokenizer.eos_token_id])
        assert (reward, info["refused"][cell], info["masked"][cell], info["error"]) == (0, 1, 1, False)
    assert info["steps"] == 7
