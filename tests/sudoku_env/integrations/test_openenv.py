"""Client and server in the installed OpenEnv, by uvicorn on the loopback interface; skipped where it is missing."""

import json
import runpy
from pathlib import Path

import pytest

pytest.importorskip("openenv.core", reason="needs openenv: make test-integrations")

from openenv.cli.__main__ import app as openenv_cli
from typer.testing import CliRunner

import sudoku_env.integrations.openenv as ours
from examples import openenv_play as example
from sudoku_env import SudokuText, to_string
from sudoku_env.integrations.openenv import SudokuAction, SudokuClient

PUZZLE, SOLUTION = "123.341221434321", "1234341221434321"


@pytest.fixture(scope="module")
def url():
    with example.served(size=4) as address:
        yield address


def test_an_episode_is_that_of_the_text_environment(url):
    env = SudokuText(size=4)
    with SudokuClient(base_url=url).sync() as client:
        text, info = env.reset(seed=5)
        result = client.reset(seed=5)
        assert result.observation.text == text and result.observation.puzzle == to_string(info["puzzle"])
        moves = ["place 1 1 9", "hint", "what?"]
        while not result.done:
            move = moves.pop(0) if moves else example.right_move(result.observation)
            result = client.step(SudokuAction(message=move))
            text, reward, terminated, truncated, info = env.step(move)
            seen = result.observation
            assert (seen.text, result.reward, seen.truncated) == (text, pytest.approx(reward), truncated)
            assert seen.board == to_string(info["board"])
            for name in ("turns", "solved", "illegal", "hints", "seed", "clues"):
                assert getattr(seen, name) == info[name]
        assert terminated and seen.solved
        state = client.state()
        assert state.step_count == env.turns and state.score == pytest.approx(env.score) and state.episode_id


def test_sessions_do_not_see_each_other(url):
    with SudokuClient(base_url=url).sync() as one, SudokuClient(base_url=url).sync() as two:
        one.reset(puzzle=PUZZLE)
        assert two.reset(seed=1, size=6).observation.size == 6
        assert two.step(SudokuAction(message="hint")).observation.hints == 1
        result = one.step(SudokuAction(message="place 1 4 4"))
        assert result.done and result.reward == 1.0 and result.observation.hints == 0
        assert two.state().step_count == 1


def test_openenv_validate_is_content(url, tmp_path):
    package = str(Path(ours.__file__).parent)
    static = CliRunner().invoke(openenv_cli, ["validate", package, "--level", "static", "--skip-build"])
    assert static.exit_code == 0, static.output
    running = CliRunner().invoke(openenv_cli, ["validate", "--url", url, "--json"])
    assert running.exit_code == 0, running.output
    report = json.loads(running.output[running.output.index("{") :])
    assert report["passed"] and all(criterion["passed"] for criterion in report["criteria"])


def test_the_example_runs(capsys):
    runpy.run_path(example.__file__, run_name="__main__")
    printed = capsys.readouterr().out
    assert "Hint (grade 1)" in printed and "The grid is complete and right. Reward of the last turn: 1.0" in printed
