import pandas as pd
import torch
from PIL import Image

from scripts.sudoku.run_plot import PANELS, plot_run


def test_picture_of_a_run(tmp_path):
    metrics = pd.DataFrame({"step": range(5), **{name: torch.rand(5).tolist() for name, _ in PANELS}})
    metrics.loc[2, "greedy_forced"] = float("nan")
    points = {"seconds": [0, 1], "solved": [0.5, 0.6], "solved_ci95": [0.1, 0.1], "greedy_forced": [0.9, 0.95]}
    plot_run(metrics, {"rl": pd.DataFrame(points)}, 0.8, tmp_path / "run.png")
    with Image.open(tmp_path / "run.png") as picture:
        assert picture.width > 1000
    assert [path.name for path in tmp_path.iterdir()] == ["run.png"]
