"""The comparison on 4×4 boards of others' files: what is judged by hand, and all of it in small."""

from pathlib import Path

import numpy as np
import pytest

from scripts.referee.compare import METHODS, OURS
from scripts.referee.published import Published, PublishedArguments
from sudoku_dllm.trials.record import Records
from sudoku_env.board import to_string
from sudoku_env.generator import generate
from tests.scripts.helpers.started import in_small

GRID, OTHER = "1234341221434321", "1234341243212143"
"""Two grids that agree in their upper half."""


def write(path: Path, rows: list[tuple[str, str]]) -> Path:
    """A file as the papers have it."""
    path.write_text("Puzzle,Solution\n" + "".join(f"{puzzle},{solution}\n" for puzzle, solution in rows), "utf-8")
    return path


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """Two puzzles of eight clues: of the first both grids are solutions, of the second its own alone."""
    return write(tmp_path / "theirs.csv", [(GRID[:8] + "0" * 8, GRID), ("0" * 8 + GRID[8:], GRID)])


def test_an_answer_is_judged_by_the_rules_and_as_they_judge(tests) -> None:
    batch = (task := Published(PublishedArguments(tests=[str(tests)]))).test_batch()
    assert task.published.solutions.shape == (2, 16)
    digits, cells = batch.layout.digit_ids, batch.layout.cell_positions
    answers = batch.responses.clone()
    for row, grid in enumerate((OTHER, GRID)):
        for place, symbol in zip(cells, grid, strict=True):
            answers[row, place] = digits[int(symbol) - 1]
    assert batch.completable(answers, np.array([0, 1])).tolist() == [True, True]
    found = task.compared(batch, answers)
    same = sum(a == b for a, b in zip(GRID[8:], OTHER[8:], strict=True)) / 8
    assert found["theirs"].tolist() == [False, True] and found["blanks"].tolist() == [same, 1.0]


def test_nothing_of_the_files_is_trained_on(tmp_path) -> None:
    one = Published(PublishedArguments(tests=[str(write(tmp_path / "a.csv", [(GRID[:8] + "0" * 8, GRID)]))], boards=50))
    boards, grids = one.setting.training_boards(3)
    assert 20 < len(boards) <= 50 and (np.where(boards > 0, grids, 0) == boards).all()
    drawn = [(to_string(board), to_string(grid)) for board, grid in zip(boards[:20], grids[:20], strict=True)]
    other = Published(PublishedArguments(tests=[str(write(tmp_path / "b.csv", drawn))], boards=50))
    left, _ = other.setting.training_boards(3)
    left, all_, held = ({board.tobytes() for board in part} for part in (left, boards, boards[:20]))
    assert left == all_ - held


def test_what_is_refused(tests, tmp_path) -> None:
    six = generate(1, size=6, clues=14, seed=0)
    large = write(tmp_path / "six.csv", [(to_string(six.boards[0]), to_string(six.solutions[0]))])
    for bad, said in (
        ({}, "tests names no file"),
        ({"tests": [str(large)]}, "puzzles of 36 cells"),
        ({"tests": [str(tests)], "size": 6}, "size=6 must be 4"),
        ({"tests": [str(tests)], "test_boards": 9}, "test_boards=9 has no say here"),
        ({"tests": [str(tests)], "start": "all"}, "start"),
    ):
        with pytest.raises(ValueError, match=said):
            PublishedArguments(**bad)


def test_all_methods_in_small(tests, tmp_path) -> None:
    words = "--start form --start_steps 2 --boards 60 --max_steps 2 --prompts 2 --num_generations 2"
    table = in_small("referee/published.py", tmp_path / "run", *METHODS, *OURS, *words.split(), tests=tests)
    outcomes = Records(tmp_path / "run").outcomes("espo/seed0")
    assert {f"{name}/{k}" for name in ("right", "theirs", "blanks") for k in (1, 2, 4, 8)} < set(outcomes)
    assert "blanks as in theirs at 4" in table
