import pandas as pd
import pytest
import torch
from PIL import Image

from dllm_rl.report import PANELS, closing_table, plot_run
from tests.dllm_rl.helpers.evaluations import FIRST, SECOND


def test_table_by_hand() -> None:
    table = closing_table({"base": {"margin": FIRST, "policy": SECOND}, "rl": {"margin": SECOND, "policy": FIRST}}, 0.9)
    assert list(table.index) == ["base", "rl"]
    assert table.loc["base"].to_dict() == pytest.approx(
        {
            "solved margin %": 75.0,
            "solved policy %": 25.0,
            "greedy_forced %": 80.0,
            "(random floor)": 90.0,
            "steps before error": 7.5,
        }
    )
    assert table.loc["rl", "greedy_forced %"] == pytest.approx(50.0)
    assert table.loc["rl", "steps before error"] == pytest.approx(4.0)


def test_picture_of_a_run(tmp_path):
    metrics = pd.DataFrame({"step": range(5), **{name: torch.rand(5).tolist() for name, _ in PANELS}})
    metrics.loc[2, "greedy_forced"] = float("nan")
    points = {"seconds": [0, 1], "solved": [0.5, 0.6], "solved_ci95": [0.1, 0.1], "greedy_forced": [0.9, 0.95]}
    plot_run(metrics, {"rl": pd.DataFrame(points)}, 0.8, tmp_path / "run.png")
    with Image.open(tmp_path / "run.png") as picture:
        assert picture.width > 1000
    assert [path.name for path in tmp_path.iterdir()] == ["run.png"]
