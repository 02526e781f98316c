"""`scripts/benchmarks/environments.py` with a handful of steps, as a user runs it."""

import pandas as pd
import pytest

from tests.helpers.warm_process import ROOT, finished

pytestmark = pytest.mark.slow


def test_tables_by_boards_size_and_vocabulary(tmp_path) -> None:
    words = ["--steps", "40", "--rounds", "1", "--num_envs", "1", "8", "--sizes", "4", "9", "--vocabularies", "450"]
    script = ROOT / "scripts" / "benchmarks" / "environments.py"
    done = finished(script, [*words, "--output_dir", tmp_path], timeout=600)
    tables = {path.stem: pd.read_csv(path) for path in tmp_path.glob("*.csv")}
    assert {name: len(table) for name, table in tables.items()} == {
        "sudoku_environments": 2,
        "our_environments_until_a_wrong_digit": 4,
        "board_sizes_until_a_dead_end": 4,
        "sudokuunmask_by_vocabulary_6×6": 2,
    }
    assert all((table["ours"] > 0).all() for table in tables.values())
    beside = tables["sudoku_environments"].set_index("task")["plain Python"]
    assert beside.notna().all() and "450 entries, 8 environments" in done.stdout
