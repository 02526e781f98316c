"""The task set in the installed verifiers, by its own eval against a server on the loopback interface.

Skipped where verifiers is not installed.
"""

import runpy

import pytest

pytest.importorskip("verifiers.v1", reason="needs verifiers: make test-integrations")

from examples import verifiers_eval as example
from sudoku_env import SudokuText, count_solutions, parse_puzzle
from sudoku_env.integrations.verifiers import SudokuTaskset, SudokuTasksetConfig


def values(trace, kind):
    """The rewards or the metrics of a trace, by name."""
    return {name: value["score"] if isinstance(value, dict) else value for name, value in trace[kind].items()}


def test_tasks_are_puzzles_and_the_same_for_equal_configs():
    config = SudokuTasksetConfig(num_tasks=4, size=6, clues=16, rule="singles", seed=3)
    tasks = list(SudokuTaskset(config))
    assert [task.data.idx for task in tasks] == [0, 1, 2, 3] and len({task.key for task in tasks}) == 4
    assert [task.data for task in tasks] == [task.data for task in SudokuTaskset(config)]
    for task in tasks:
        puzzle = parse_puzzle(task.data.prompt_text)
        assert (puzzle > 0).sum() == task.data.clues == 16 and count_solutions(puzzle) == 1


def test_eval_of_one_who_solves(tmp_path):
    traces = example.evaluate(example.solver, tmp_path, "-n", "2", "--env.taskset.size", "4")
    assert len(traces) == 2
    for trace in traces:
        assert values(trace, "rewards") == {"reward": 1.0}
        assert values(trace, "metrics")["cells"] == 1.0 and values(trace, "metrics")["hints"] == 0.0
        assert not trace["errors"]


def test_eval_of_one_who_takes_a_hint_and_gives_up(tmp_path):
    def quitter(messages):
        return "hint" if len(messages) == 1 else "I cannot.\ngive_up"

    options = ["-n", "1", "--env.taskset.size", "4", "--env.taskset.seed", "1"]
    (trace,) = example.evaluate(quitter, tmp_path, *options)
    game = SudokuText(size=4)
    game.reset(options={"puzzle": trace["task"]["data"]["puzzle"]})
    game.hint()
    assert values(trace, "rewards")["reward"] == pytest.approx(game.score) and game.score < 0
    assert values(trace, "metrics")["hints"] == 1.0
    assert len([node for node in trace["nodes"] if node["message"]["role"] == "assistant"]) == 2


def test_eval_of_free_answers(tmp_path):
    options = ["-n", "1", "--env.taskset.size", "4", "--env.taskset.mode", "answer"]
    (right,) = example.evaluate(example.solver, tmp_path / "right", *options)
    (echo,) = example.evaluate(lambda messages: messages[-1]["content"], tmp_path / "echo", *options)
    assert values(right, "rewards")["reward"] == 1.0 and values(right, "metrics")["cells"] == 1.0
    assert values(echo, "rewards")["reward"] == 0.0 and values(echo, "metrics")["cells"] == 0.0


def test_the_example_runs(capsys):
    runpy.run_path(example.__file__, run_name="__main__")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("puzzle ")]
    assert len(lines) == 3 and all("'score': 1.0" in line for line in lines)
