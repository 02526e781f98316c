"""The data set in the installed reasoning-gym; skipped where it is not installed."""

import itertools
import runpy
from pathlib import Path

import pytest

pytest.importorskip("reasoning_gym", reason="needs reasoning-gym: make test-integrations")

import reasoning_gym
from reasoning_gym.composite import DatasetSpec
from reasoning_gym.dataset import ReseedingDataset
from reasoning_gym.factory import create_curriculum

from sudoku_env import SudokuError, count_solutions, parse_puzzle, rate
from sudoku_env.integrations import reasoning_gym as ours


def made(**values):
    return reasoning_gym.create_dataset("sudoku_env", **{"seed": 1, "size": 5} | values)


@pytest.mark.parametrize("board", [4, 6, 9])
def test_items_are_puzzles_as_asked_for(board):
    data = made(board=board)
    items = list(data)
    assert len(items) == len(data) == 5 and items == list(made(board=board))
    assert [item["metadata"]["puzzle"] for item in items] != [
        i["metadata"]["puzzle"] for i in made(board=board, seed=2)
    ]
    low, high = data.config.clues
    for item in items:
        puzzle = parse_puzzle(item["question"])
        assert low <= (puzzle > 0).sum() == item["metadata"]["clues"] <= high
        assert count_solutions(puzzle) == 1 and rate(puzzle, "singles").solved
        assert data.score_answer(item["answer"], item) == 1.0


def test_form_does_not_matter_and_an_echo_is_no_answer():
    data = made(board=4)
    item = data[0]
    for answer in (
        f"```\n{item['answer']}\n```",
        f"\\boxed{{{item['metadata']['solution']}}}",
        f"So:\n{item['answer']}",
    ):
        assert data.score_answer(answer, item) == 1.0
    for answer in (None, "", item["question"], item["metadata"]["puzzle"], "no idea"):
        assert data.score_answer(answer, item) == 0.0


def test_the_partial_score_by_request():
    item = made(board=4)[0]
    last = item["metadata"]["puzzle"].rindex(".")
    solution = item["metadata"]["solution"]
    answer = solution[:last] + "." + solution[last + 1 :]
    blanks = item["metadata"]["puzzle"].count(".")
    assert made(board=4).score_answer(answer, item) == 0.0
    assert made(board=4, score="partial").score_answer(answer, item) == pytest.approx((blanks - 1) / blanks)


def test_the_curriculum_makes_harder_puzzles():
    curriculum = create_curriculum("sudoku_env")
    easy = curriculum.generate_configuration({"seed": 0, "size": 2})
    assert (easy.board, easy.min_blanks, easy.max_blanks, easy.rule) == (4, 0.25, 0.4, "singles")
    while curriculum.increment_global_level():
        pass
    hard = curriculum.generate_configuration({"seed": 0, "size": 2})
    assert (hard.board, hard.max_blanks, hard.rule) == (9, 0.65, "patterns")
    assert all(item["metadata"]["clues"] >= 28 for item in ours.SudokuDataset(hard))


def test_it_stands_in_composites_and_reseeds():
    specs = [DatasetSpec("sudoku_env", 1, {"board": 4}), DatasetSpec("chain_sum", 1, {})]
    mixed = reasoning_gym.create_dataset("composite", size=12, seed=0, datasets=specs)
    ours_among = [item for item in mixed if item["metadata"]["source_dataset"] == "sudoku_env"]
    assert ours_among and all(mixed.score_answer(item["answer"], item) == 1.0 for item in ours_among)
    endless = ReseedingDataset(made(board=4), chunk_size=2)
    puzzles = [item["metadata"]["puzzle"] for item in itertools.islice(endless, 6)]
    assert len(set(puzzles)) == 6


@pytest.mark.parametrize("values", [{"board": 5}, {"min_blanks": 0.7}, {"rule": "guess"}, {"score": "dense"}])
def test_values_out_of_range_are_refused(values):
    with pytest.raises(SudokuError):
        made(**values)


def test_the_example_runs(capsys):
    runpy.run_path(str(Path(__file__).parents[3] / "examples" / "reasoning_gym_data.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.count("the solution in a fence: 1.0") == 3 and printed.count("the puzzle again:        0.0") == 3
    assert printed.count("SudokuConfig(") == 4
