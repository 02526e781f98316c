"""`scripts/sudoku/at_scale.py`: what is in the folder, however it came there, and what is refused."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sudoku_env import generate, rate
from sudoku_env.split import SPLITS, grid_key, split_of
from tests.helpers.warm_process import run_script

SCRIPT = Path(__file__).parents[3] / "scripts" / "sudoku" / "at_scale.py"
WORDS = ["--size", "6", "--clues", "12", "18", "--shard", "20", "--seed", "3"]


def made(folder: Path, *words: Any) -> Any:
    return run_script(SCRIPT, [*WORDS, *words, "--output_dir", folder], timeout=300)


def rows_of(folder: Path) -> pd.DataFrame:
    """All rows, in the order of their shards, with their splits."""
    parts = [
        pd.read_parquet(path).assign(split=split, shard=int(path.stem))
        for split in SPLITS
        for path in sorted((folder / f"split={split}").glob("*.parquet"))
    ]
    return pd.concat(parts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards by two processes."""
    path = tmp_path_factory.mktemp("scale") / "puzzles"
    done = made(path, "--puzzles", "60", "--workers", "2")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "3 of 3" in done.stdout and "| all | 60 |" in done.stdout
    return path


@pytest.mark.slow
def test_the_puzzles_are_the_generator_s_rated_and_dealt_by_their_grids(folder: Path) -> None:
    rows, drawn = rows_of(folder), generate(60, size=6, clues=(12, 18), rule=None, seed=3)
    wanted = {"".join(map(str, board)): solution for board, solution in zip(*_lists(drawn), strict=True)}
    assert sorted(rows["puzzle"]) == sorted(wanted)
    for row in rows.itertuples():
        board = np.array([int(digit) for digit in row.puzzle]).reshape(6, 6)
        assert row.solution == "".join(map(str, wanted[row.puzzle]))
        assert row.clues == (board > 0).sum() and row.rule == rate(board).rule
        assert row.split == split_of(np.array(wanted[row.puzzle]).reshape(6, 6))


def _lists(drawn: Any) -> tuple[list[list[int]], list[list[int]]]:
    return drawn.boards.tolist(), drawn.solutions.tolist()


@pytest.mark.slow
def test_no_grid_is_in_two_splits_up_to_symmetry(folder: Path) -> None:
    rows = rows_of(folder)
    assert (rows.groupby("grid")["split"].nunique() == 1).all() and rows["split"].nunique() > 1
    keys = {row.grid: grid_key([int(digit) for digit in row.solution]) for row in rows.itertuples()}
    assert len(set(keys.values())) == len(keys)


@pytest.mark.slow
def test_what_lacks_is_made_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    """A shard whose line is missing is made again as it was; more puzzles only append."""
    before = rows_of(folder)
    written = {path: path.stat().st_mtime_ns for path in folder.glob("split=*/*.parquet")}
    (folder / "shards" / "00000001.json").unlink()
    done = made(folder, "--puzzles", "80", "--workers", "1")
    assert done.returncode == 0 and "2 shards of 20 puzzles to make" in done.stdout, done.stderr[-3000:]
    after = rows_of(folder)
    pd.testing.assert_frame_equal(after[after["shard"] < 3], before)
    changed = {path.stem for path, when in written.items() if path.stat().st_mtime_ns != when}
    assert changed == {"00000001"} and len(after) == 80
    done = made(folder, "--puzzles", "60")
    assert done.returncode == 0 and "0 shards" in done.stdout and "| all | 80 |" in done.stdout


@pytest.mark.slow
def test_other_puzzles_are_not_mixed_in(folder: Path) -> None:
    done = made(folder, "--seed", "4")
    assert done.returncode == 2 and "choose another --output_dir" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--size", "4"], "size=4 must be 6 or 9"),
        (["--clues", "10"], "give the fewest and the most"),
        (["--shard", "0"], "shard=0"),
        (["--clues", "40", "50"], "clues"),
    ],
)
def test_wrong_numbers_are_named(tmp_path: Path, words: list[str], told: str) -> None:
    done = made(tmp_path / "none", *words)
    assert done.returncode == 2 and told in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_it_says_how_to_get_it(tmp_path: Path) -> None:
    done = made(tmp_path / "none", "--puzzles", "20", "--pool", "ray")
    assert done.returncode == 2 and "pip install ray" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_ray_makes_the_same_puzzles(folder: Path, tmp_path: Path) -> None:
    done = made(tmp_path / "puzzles", "--puzzles", "60", "--pool", "ray")
    assert done.returncode == 0, done.stderr[-3000:]
    pd.testing.assert_frame_equal(rows_of(tmp_path / "puzzles"), rows_of(folder).query("shard < 3"))
