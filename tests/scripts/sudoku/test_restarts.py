"""`scripts/sudoku/restarts.py` with a handful of puzzles."""

from pathlib import Path

import pandas as pd
import pytest

from tests.helpers.warm_process import finished, run_script

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "sudoku" / "restarts.py"


def test_a_row_for_each_setting(tmp_path: Path) -> None:
    words = ["--model", "llada-sudoku6x6", "--drawn", "0", "--size", "6", "--puzzles", "8", "--tokens_per_step", "4"]
    words += ["--threshold", "1", "--restart_share", "0.5", "1", "--max_passes", "20", "60", "--seeds", "0", "1"]
    finished(SCRIPT, [*words, "--output_dir", tmp_path], timeout=300, cwd=ROOT)
    table = pd.read_csv(tmp_path / "table.csv")
    assert table["decoding"].tolist() == ["4 tokens a step"] * 5 + ["margin of 1"] * 5
    assert table["restart_share"].isna().tolist() == [True, False, False, False, False] * 2
    plain = table["solved"].iloc[[0] * 5 + [5] * 5].to_numpy()
    assert (table["solved"] >= plain).all() and (table["passes"] <= 60).all()  # what fits is left as it is
    assert (table["lowest"] <= table["highest"]).all() and table["repaired"].dropna().between(0, 100).all()


def test_drawn_puzzles(tmp_path: Path) -> None:
    words = ["--drawn", "2", "--clues", "45", "50", "--restart_share", "0.5", "--max_passes", "40"]
    done = run_script(SCRIPT, [*words, "--output_dir", tmp_path], timeout=300, cwd=ROOT)
    assert done.returncode == 0 and "2 puzzles (drawn, [45, 50] clues)" in done.stdout
