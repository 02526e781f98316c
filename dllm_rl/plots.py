"""Pictures of a training run and of decoding orders."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = (
    ("clip_frac", "share of decisions clipped"),
    ("position_entropy", "entropy of the position policy (nats)"),
    ("greedy_forced", "greedy position is forced (S1)"),
    ("position_top_prob", "largest position probability"),
)


def read_json_lines(path: str | Path) -> pd.DataFrame:
    """A JSON-lines file as a frame, one row a line."""
    return pd.DataFrame([json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()])


def plot_run(metrics: pd.DataFrame, curves: dict[str, pd.DataFrame], floor: float, path: str | Path) -> None:
    """Draw a run: held-out solve rate and order against training time, then the four metrics that seed 001 asks for.

    Args:
        metrics: What the trainer logged, with a `step` column.
        curves: Name → held-out curve (`HeldOutCurve`), e.g. of RL and of the control.
        floor: `greedy_forced` of a random order on the held-out puzzles.
        path: PNG to write; an existing file is replaced whole or not at all.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(13, 7), constrained_layout=True)
    solved, order = axes[0, 0], axes[1, 0]
    for name, curve in curves.items():
        solved.errorbar(curve.seconds, 100 * curve.solved, 100 * curve.solved_ci95, marker="o", capsize=3, label=name)
        order.plot(curve.seconds, curve.greedy_forced, marker="o", label=name)
    order.axhline(floor, color="gray", linestyle="--", label="random order")
    solved.set(title="held-out puzzles solved, margin decoding (%)", xlabel="training seconds")
    order.set(title="held-out: greedy position is forced (S1)", xlabel="training seconds")
    for axis in (solved, order):
        axis.legend()
    for axis, (column, title) in zip(axes[:, 1:].flat, PANELS, strict=True):
        if column in metrics:
            rows = metrics.dropna(subset=[column])
            axis.plot(rows.step, rows[column], alpha=0.35)
            axis.plot(rows.step, rows[column].rolling(10, min_periods=1).mean(), color="C0")
        axis.set(title=title, xlabel="optimizer step")
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    save_figure(figure, Path(path))
    plt.close(figure)


def plot_order(orders: dict[str, NDArray[np.float64]], path: str | Path) -> None:
    """Draw when each cell is filled, one board for each order; cells that are never blank stay white.

    Args:
        orders: Name → `(n, n)` from 0 (first) to 1 (last), see `dllm_rl.order.mean_order`.
        path: PNG to write; an existing file is replaced whole or not at all.

    Raises:
        ValueError: There is no order.
    """
    if not orders:
        raise ValueError("cannot draw no order; pass at least one")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = min(4, len(orders))
    rows = -(-len(orders) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.2 * columns + 1, 3.2 * rows), squeeze=False, constrained_layout=True
    )
    for axis in axes.flat[len(orders) :]:
        axis.remove()
    used = list(axes.flat[: len(orders)])
    for axis, (name, order) in zip(used, orders.items(), strict=True):
        image = axis.imshow(order, cmap="viridis", vmin=0.0, vmax=1.0)
        axis.set(title=name, xticks=[], yticks=[])
        for (row, column), value in np.ndenumerate(order):
            if np.isfinite(value):
                color = "white" if value < 0.6 else "black"
                axis.text(column, row, f"{value:.2f}", ha="center", va="center", color=color, fontsize=54 / len(order))
    figure.colorbar(image, ax=used, label="place among the blanks (0 first, 1 last)")
    save_figure(figure, Path(path))
    plt.close(figure)


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG; an existing file is replaced whole or not at all."""
    partial = path.with_name(path.stem + ".partial.png")
    figure.savefig(partial, dpi=110)
    os.replace(partial, path)
