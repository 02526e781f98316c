"""`make_data.py` and `make_verl_data.py` for questions with expert answers, as a user runs them."""

import hashlib

import pytest

from scripts.shared import word_problems
from sudoku_env.chat import questions
from sudoku_env.prompts.text import parse_puzzle
from tests.scripts.helpers.started import SPLITS, finish, lines, start


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sudoku and word problems."""
    folder = tmp_path_factory.mktemp("questions")
    finish(
        start("sudoku/make_data.py", folder, kind="questions", size=4, clues_low=9, clues_high=12, **SPLITS),
        start("sudoku/make_data.py", folder, kind="word_problems", seed=1, **SPLITS),
    )
    return folder


@pytest.mark.parametrize(("name", "module"), [("sudoku4x4", questions), ("word_problems", word_problems)])
def test_questions_with_expert_answers(data, name, module):
    sets = {split: lines(data / f"{name}_{split}.jsonl") for split in SPLITS}
    assert {split: len(rows) for split, rows in sets.items()} == SPLITS
    rows = [row for of_split in sets.values() for row in of_split]
    assert all(module.correct(row["answer"], row) for row in rows)
    assert len({row["question"] for row in rows}) == len(rows)
    wanted = "result" if name == "word_problems" else "solution"
    others = [row for row in rows if row[wanted] != rows[0][wanted]]
    assert others and not any(module.correct(row["answer"], rows[0]) for row in others)
    for line in (data / f"{name}.sha256").read_text().splitlines():
        digest, file = line.split("  ")
        assert hashlib.sha256((data / file).read_bytes()).hexdigest() == digest


def test_sudoku_grids_are_in_one_split_each(data):
    grids = {split: {row["solution"] for row in lines(data / f"sudoku4x4_{split}.jsonl")} for split in SPLITS}
    assert len(set.union(*grids.values())) == sum(map(len, grids.values()))
    for row in lines(data / "sudoku4x4_train.jsonl"):
        assert 9 <= (parse_puzzle(row["question"]) > 0).sum() <= 12


def test_rows_for_verl(data, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    files = {split: data / f"word_problems_{split}.jsonl" for split in ("train", "validation")}
    wrong = {**files, "train": data / "word_problems.sha256"}
    spoiled = start("raro/make_verl_data.py", tmp_path / "no", **wrong)
    (printed,) = finish(start("raro/make_verl_data.py", tmp_path, **files))
    assert "train.parquet (12 rows)" in printed
    for split, file in files.items():
        rows = pq.read_table(tmp_path / f"{split}.parquet").to_pylist()
        asked = [row["extra_info"]["question"] for row in rows]
        assert sorted(asked) == sorted(row["question"] for row in lines(file) for _ in range(2))
        assert {row["extra_info"]["split"] for row in rows} == {split}
    _, errors = spoiled.communicate(timeout=300)
    assert spoiled.returncode == 2 and "word_problems.sha256, line 1: " in errors and not (tmp_path / "no").exists()
