"""The report of a run on SmolLM2: `results.json`, the picture of its curve, `report.html`, and the printed table."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_rl.training import load_pandas, load_pyplot, read_json_lines, save_figure, write_text_whole
from scripts.smollm2.page import Answer, write_page

if TYPE_CHECKING:
    import pandas as pd


def report(
    run: Path,
    name: str,
    results: Mapping[str, Any],
    seed: int,
    seconds: float,
    panels: Mapping[str, str],
    answers: Sequence[Answer],
) -> None:
    """Write `results.json`, `curve.png` and `report.html`, and print the table.

    Args:
        run: The run folder, with `metrics.jsonl`.
        name: Name of the algorithm.
        results: Name of a model → what `judge` gives, the start first.
        seed: Random seed of the run.
        seconds: Seconds that RL's steps took.
        panels: Held-out metric → what the picture and the table call it.
        answers: Answers of the trained model.
    """
    record = {"seed": seed, "seconds": seconds, "panels": dict(panels), "results": results}
    write_text_whole(run / "results.json", json.dumps(record, indent=2))
    curve = held_out_curve(run, panels)
    plot_curves({f"seed {seed}": curve}, panels, run / "curve.png")
    page = write_page(run, name, record, curve, answers)
    print(f"\nHeld out, seed {seed}; {seconds:.0f} s of RL:\n\n{table(results, panels)}\n\nRun folder: {run}")
    print(f"Report with answers, for a browser: {page}")


def table(results: Mapping[str, Any], panels: Mapping[str, str]) -> str:
    """A line for each model and way of decoding; a metric that no sample has, such as without any label, is NaN."""
    lines = [
        {"model": name, "decoding": way, **{title: values.get(metric, math.nan) for metric, title in panels.items()}}
        for name, ways in results.items()
        for way, values in ways.items()
    ]
    return load_pandas().DataFrame(lines).to_string(index=False, float_format="{:.3f}".format)


def held_out_curve(run: Path, panels: Mapping[str, str]) -> "pd.DataFrame":
    """The points of the curve that a run's log holds."""
    columns = [f"eval_{metric}" for metric in panels]
    return read_json_lines(run / "metrics.jsonl").reindex(columns=["step", *columns]).dropna(subset=columns, how="all")


def plot_curves(curves: "Mapping[str, pd.DataFrame]", panels: Mapping[str, str], path: Path) -> None:
    """Draw held-out metrics against optimizer steps, a panel for each and a line for each run."""
    plt = load_pyplot()
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.5 * len(panels), 3.5), squeeze=False, constrained_layout=True
    )
    for axis, (metric, title) in zip(axes.flat, panels.items(), strict=True):
        for name, curve in curves.items():
            axis.plot(curve["step"], curve[f"eval_{metric}"], marker="o", label=name)
        axis.set(title=title, xlabel="optimizer step")
        axis.grid(alpha=0.3)
    axes[0, 0].legend()
    save_figure(figure, path)
    plt.close(figure)
