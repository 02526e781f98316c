import hashlib
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sudoku_env import Puzzles, SudokuError, rate, read_puzzles
from sudoku_env.grids import canonical_grid
from sudoku_env.puzzle_sets import COLUMNS, TIERS, Tier, audit_sets, distinct, draw_by_split, to_rows, write_sets
from sudoku_env.split import SPLITS
from tests.sudoku_env.helpers import sudoku_reference as reference

SMALL = {
    4: (Tier("singles", (12, 4, 4), (5, 8)),),
    6: (Tier("singles", (6, 2, 2), (12, 16)), Tier("wings", (3, 1, 2))),
    9: (Tier("locked", (3, 1, 1)),),
}
SEED, OTHER = 1, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sets")
    write_sets(path, SMALL, seed=SEED)
    return path


def test_sets_are_as_asked_for(folder):
    for size, tiers in SMALL.items():
        grids = []
        for place, name in enumerate(SPLITS):
            table = pd.read_csv(folder / f"sudoku{size}x{size}_{name}.csv")
            assert list(table.columns) == list(COLUMNS)
            assert table["tier"].value_counts().to_dict() == {tier.rule: tier.counts[place] for tier in tiers}
            for line in table.itertuples():
                board = [int(digit) if digit != "." else 0 for digit in line.puzzle]
                if size < 9:
                    assert ["".join(map(str, found)) for found in reference.solutions(board)] == [str(line.solution)]
                assert line.clues == np.count_nonzero(board)
                assert line.rule == rate(np.array(board)).rule
            solutions = read_puzzles(folder / f"sudoku{size}x{size}_{name}.csv").solutions
            grids.append({solution.tobytes() if size == 4 else canonical_grid(solution) for solution in solutions})
        assert not grids[0] & grids[1] and not (grids[0] | grids[1]) & grids[2]
    assert audit_sets(folder, SMALL) == []


def test_sets_depend_on_the_seed_alone(folder, tmp_path):
    one = {4: SMALL[4]}
    for name, seed, threads in (("again", SEED, 2), ("other", OTHER, 1)):
        write_sets(tmp_path / name, one, seed=seed, threads=threads)
    for split in SPLITS:
        file = f"sudoku4x4_{split}.csv"
        assert (tmp_path / "again" / file).read_text() == (folder / file).read_text()
        assert (tmp_path / "other" / file).read_text() != (folder / file).read_text()


@pytest.fixture
def copied(folder, tmp_path):
    return Path(shutil.copytree(folder, tmp_path / "sets"))


def write_sums(folder):
    """Checksums of the files as they are now."""
    names = [line.split()[1] for line in (folder / "puzzles.sha256").read_text().splitlines()]
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "puzzles.sha256").write_text("".join(sums))


SPOILED = {
    "several solutions": ({"puzzle": "." * 36}, "1 puzzles have not exactly one solution"),
    "wrong solution": ({"solution": "123456" * 6}, "the solution beside the puzzle is not its"),
    "clues": ({"clues": "35"}, "1 puzzles have another number of clues than it says"),
    "rule": ({"rule": "swordfish"}, "1 puzzles need another hardest rule than it says"),
    "tier": ({"tier": "wings"}, "1 puzzles are of another tier"),
    "twice": (None, "1 puzzles occurred before"),
}
"""What is changed in the first row of a table, or that it is the second again, and what the audit says."""


@pytest.mark.parametrize("what", SPOILED)
def test_audit_finds_what_is_wrong(copied, what):
    change, message = SPOILED[what]
    path = copied / "sudoku6x6_train.csv"
    table = pd.read_csv(path, dtype=str)
    table.loc[0] = table.loc[1] if change is None else {**table.loc[0], **change}
    table.to_csv(path, index=False)
    assert [problem for problem in audit_sets(copied, SMALL) if "checksum" in problem]
    write_sums(copied)
    assert any(message in problem for problem in audit_sets(copied, SMALL))


def test_audit_finds_shared_grids_and_missing_files(copied):
    test = shutil.copy(copied / "sudoku9x9_train.csv", copied / "sudoku9x9_test.csv")
    write_sums(copied)
    problems = audit_sets(copied, SMALL)
    assert any("shares grids with ['train']" in problem for problem in problems)
    assert any("3 puzzles of tier locked, expected 1" in problem for problem in problems)
    test.unlink()
    assert len(audit_sets(copied, SMALL)) == 1
    assert "names []" in audit_sets(copied / "nowhere", SMALL)[0]


def test_a_split_that_does_not_fill_up():
    # 4×4 has 12 · 4! grids; asking for more puzzles with 16 clues than grids cannot work.
    with pytest.raises(SudokuError, match=r"only .* of .* puzzles in 3 rounds"):
        draw_by_split(4, (300, 0, 0), clues=16, rule="singles", exact=False, seed=0, rounds=3)


def test_distinct_keeps_the_first():
    boards = np.array([[3, 1], [2, 2], [3, 1], [0, 1]], np.uint8)
    kept = distinct(Puzzles(boards, np.arange(8, dtype=np.uint8).reshape(4, 2)))
    assert kept.boards.tolist() == [[3, 1], [2, 2], [0, 1]] and kept.solutions.tolist() == [[0, 1], [2, 3], [6, 7]]


def test_rows_have_the_columns_of_a_file():
    puzzles = draw_by_split(6, (2, 0, 0), clues=20, rule="singles", exact=False, seed=0)["train"]
    rows = to_rows(puzzles, "singles")
    assert all(tuple(row) == COLUMNS for row in rows)
    assert [row["clues"] for row in rows] == [20, 20]
    assert {row["rule"] for row in rows} <= {"naked_single", "hidden_single"}


def test_tiers_are_named_once():
    for tiers in TIERS.values():
        assert len({tier.rule for tier in tiers}) == len(tiers)
