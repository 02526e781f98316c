"""Nothing that an adapter shows before the end holds the solution; `check_no_solution` searches `SudokuText` itself."""

import gymnasium
import numpy as np
import pytest

from sudoku_env import SudokuText, solve, text_rows, to_string
from sudoku_env.chat.moves import read_move
from sudoku_env.integrations.trl import environment_factory
from sudoku_env.integrations.verl import verl_rows
from sudoku_env.testing import hinted_player
from sudoku_env.testing.text_checks import holds

ASKED = {"size": 4, "clues": 8}
ROW = text_rows(1, **ASKED, tools=True)[0]
SOLUTION = to_string(solve(ROW["puzzle"]))


def played(step):
    """What `step` shows in a game of hints, wrong digits and right ones, but for its last move."""
    game, rng = SudokuText(size=4), np.random.default_rng(0)
    game.reset(options={"puzzle": ROW["puzzle"]})
    move = hinted_player(game, rng)
    while not (game.step(move)[2] or game.over):
        yield step(move)
        move = hinted_player(game, rng)


def by_trl():
    tools = environment_factory(size=4)()
    yield ROW, tools.reset(**ROW)
    yield from played(lambda text: getattr(tools, (move := read_move(text)).name)(*move.numbers))


def by_verl():
    yield from verl_rows(1, **ASKED) + verl_rows(1, **ASKED, game=True)


def by_openenv():
    pytest.importorskip("openenv.core", reason="needs openenv: make test-integrations")
    from sudoku_env.integrations.openenv import SudokuAction
    from sudoku_env.integrations.openenv.server import SudokuEnvironment

    session = SudokuEnvironment(size=4)
    yield session.reset(puzzle=ROW["puzzle"]).model_dump()
    yield from played(lambda move: (session.step(SudokuAction(message=move)).model_dump(), session.state.model_dump()))


def by_verifiers():
    pytest.importorskip("verifiers.v1", reason="needs verifiers: make test-integrations")
    from sudoku_env.integrations.verifiers import SudokuTaskset, SudokuTasksetConfig

    for mode in ("game", "answer"):
        (task,) = SudokuTaskset(SudokuTasksetConfig(num_tasks=1, mode=mode, **ASKED))
        yield task.data.model_dump()


@pytest.mark.parametrize("shown", [by_trl, by_verl, by_openenv, by_verifiers])
def test_nothing_that_is_shown_before_the_end_holds_the_solution(shown):
    seen = list(shown())
    assert ROW["puzzle"].replace(".", "") in "".join(filter(str.isdigit, str(seen[0])))
    assert holds([*seen, SOLUTION], SOLUTION) and not any(holds(one, SOLUTION) for one in seen)


@pytest.mark.parametrize("name", ["sudoku_env:Sudoku-v0", "sudoku_env:SudokuUnmask-v0"])
def test_no_info_holds_the_solution_unless_it_is_asked_for(name):
    for env in (gymnasium.make(name, size=4), gymnasium.make_vec(name, 2, size=4)):
        _, info = env.reset(seed=0)
        known = env.unwrapped.solutions if hasattr(env.unwrapped, "solutions") else env.unwrapped.solution
        assert not any(holds(info, to_string(solution)) for solution in np.atleast_2d(known))
