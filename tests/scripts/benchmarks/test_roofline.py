"""`scripts/benchmarks/roofline.py` with a handful of puzzles, as a user runs it."""

import pandas as pd
import pytest

from tests.helpers.warm_process import ROOT, finished

pytestmark = pytest.mark.slow


def test_a_row_for_each_work(tmp_path) -> None:
    words = ["--puzzles", "6", "--training_puzzles", "1", "--num_generations", "2", "--rounds", "1"]
    script = ROOT / "scripts" / "benchmarks" / "roofline.py"
    done = finished(script, [*words, "--output_dir", tmp_path], timeout=600)
    table = pd.read_csv(tmp_path / "roofline.csv")
    steps = ("1 token a step", "4 tokens a step")
    assert table["work"].tolist() == [f"{work}, {step}" for step in steps for work in ("decode", "roll-out", "update")]
    assert (table["time / forward passes"] > 1).all() and table["% of the limit"].between(0, 100).all()
    assert table["passes"][0] > table["passes"][3] and "limit: " in done.stdout
