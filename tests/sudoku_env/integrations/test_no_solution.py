"""Nothing that a player sees before the end holds the solution: every environment, adapter and row is searched."""

import gymnasium
import numpy as np
import pytest

from sudoku_env import PuzzlePool, SudokuText, default_puzzles, solve, text_rows
from sudoku_env.board import to_string
from sudoku_env.chat.moves import read_move
from sudoku_env.testing import hinted_player
from sudoku_env.testing.text_checks import holds

ROW = text_rows(1, size=4, clues=8, tools=True)[0]
SOLUTION = to_string(solve(ROW["puzzle"]))


def turns():
    """A game of hints, wrong digits and right ones, and the messages that play it up to the last move."""
    game = SudokuText(size=4)
    game.reset(options={"puzzle": ROW["puzzle"]})
    rng = np.random.default_rng(0)
    while not game.over:
        move = hinted_player(game, rng)
        game.step(move)
        if not game.over:
            yield move


def in_words():
    game = SudokuText(size=4, tell_dead_ends=True)
    yield game.reset(options={"puzzle": ROW["puzzle"]})
    yield from map(game.step, turns())
    yield game.messages, game.log()


def by_trl():
    from sudoku_env.integrations.trl import environment_factory

    tools = environment_factory(size=4)()
    yield ROW, tools.reset(**ROW)
    for move in map(read_move, turns()):
        yield getattr(tools, move.name)(*move.numbers), tools.get_reward()


def by_verl():
    from sudoku_env.integrations.verl import verl_rows

    for game in (False, True):
        (row,) = verl_rows(1, size=4, clues=8, game=game)
        assert row["extra_info"]["puzzle"] == ROW["puzzle"]
        yield row


def by_openenv():
    pytest.importorskip("openenv.core", reason="needs openenv: make test-integrations")
    from sudoku_env.integrations.openenv import SudokuAction
    from sudoku_env.integrations.openenv.server import SudokuEnvironment

    session = SudokuEnvironment(size=4)
    yield session.reset(puzzle=ROW["puzzle"]).model_dump()
    for move in turns():
        yield session.step(SudokuAction(message=move)).model_dump(), session.state.model_dump()


def by_verifiers():
    pytest.importorskip("verifiers.v1", reason="needs verifiers: make test-integrations")
    from sudoku_env.integrations.verifiers import SudokuTaskset, SudokuTasksetConfig

    for mode in ("game", "answer"):
        (task,) = SudokuTaskset(SudokuTasksetConfig(num_tasks=1, size=4, clues=8, mode=mode))
        assert task.data.puzzle == ROW["puzzle"]
        yield task.data.model_dump()


@pytest.mark.parametrize("shown", [in_words, by_trl, by_verl, by_openenv, by_verifiers])
def test_nothing_that_is_shown_before_the_end_holds_the_solution(shown):
    seen = list(shown())
    assert seen and holds([*seen, SOLUTION], SOLUTION)
    assert not any(holds(one, SOLUTION) for one in seen)


@pytest.mark.parametrize("name", ["Sudoku-v0", "SudokuUnmask-v0"])
def test_no_info_holds_the_solution_unless_it_is_asked_for(name):
    source = PuzzlePool(default_puzzles(4))
    for env in (gymnasium.make(f"sudoku_env:{name}", source=source), gymnasium.make_vec(f"sudoku_env:{name}", 2)):
        _, info = env.reset(seed=0)
        known = env.unwrapped.solutions if hasattr(env.unwrapped, "solutions") else env.unwrapped.solution
        assert not any(holds(info, to_string(solution)) for solution in np.atleast_2d(known))
