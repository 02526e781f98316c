import csv
from pathlib import Path

import pytest

from tests.scripts.helpers.in_process import run_here
from tests.scripts.helpers.started import ROOT


def test_every_term_has_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    model = ROOT / "data" / "models" / "llada-sudoku6x6"
    words = ["--trajectories", 4, "--position_temperatures", 1.0]
    run_here(
        monkeypatch,
        "sudoku/gradient_cosines.py",
        *words,
        model=model,
        num_generations=2,
        repeats=2,
        output_dir=tmp_path,
    )
    with (tmp_path / "gradient_cosines.csv").open() as file:
        rows = {row["term"]: row for row in csv.DictReader(file)}
    assert len(rows) == 10 and {"f", "f, placebo", "masked CE", "both, closed", "log Z"} < rows.keys()
    for row in rows.values():
        shares = [float(row[name].split(" ± ")[0]) for name in ("Monte Carlo %", "between puzzles %", "common %")]
        assert sum(shares) == pytest.approx(100, abs=0.2)
        assert -1 <= float(row["cosine"].split(" ± ")[0]) <= 1
    assert rows["f"] != {**rows["f, placebo"], "term": "f"}
    assert "218,560 parameters" in capsys.readouterr().out
