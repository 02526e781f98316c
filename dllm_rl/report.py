"""What a training run ends with: its table and its picture. Both need the extra `reports`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dllm_rl.evaluate import Evaluation
from llm_rl.training.reports import load_pandas, load_pyplot
from llm_rl.training.storage import save_figure

if TYPE_CHECKING:
    import pandas as pd

PANELS = (
    ("clip_frac", "share of decisions clipped"),
    ("position_entropy", "entropy of the position policy (nats)"),
    ("greedy_forced", "greedy position is definite (S1)"),
    ("position_top_prob", "largest position probability"),
)


def closing_table(evaluations: Mapping[str, Mapping[str, Evaluation]], floor: float) -> "pd.DataFrame":
    """One row a model: solve rate by each strategy, and the order metrics of margin decoding.

    Args:
        evaluations: Model name → strategy name → evaluation; "margin" must be there.
        floor: `greedy_forced` of filling cells correctly in random order.

    Returns:
        A frame indexed by model name, rates in percent.

    Raises:
        ModuleNotFoundError: pandas is not installed.
    """
    rows = {}
    for model, by_strategy in evaluations.items():
        row = {f"solved {name} %": 100 * result.solved.mean() for name, result in by_strategy.items()}
        margin = by_strategy["margin"]
        row["greedy_forced %"] = 100 * margin.greedy_forced
        row["(random floor)"] = 100 * floor
        row["steps before error"] = margin.steps_before_error.mean()
        rows[model] = row
    return load_pandas().DataFrame.from_dict(rows, orient="index")


def plot_run(metrics: "pd.DataFrame", curves: "dict[str, pd.DataFrame]", floor: float, path: str | Path) -> None:
    """Draw a run: held-out solve rate and order against training time, then the four metrics of docs/sources.md.

    Args:
        metrics: What the trainer logged, with a `step` column.
        curves: Name → held-out curve (`HeldOutCurve`), e.g. of RL and of the control.
        floor: `greedy_forced` of a random order on the held-out puzzles.
        path: PNG to write; an existing file is replaced whole or not at all.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    plt = load_pyplot()
    figure, axes = plt.subplots(2, 3, figsize=(13, 7), constrained_layout=True)
    solved, order = axes[0, 0], axes[1, 0]
    for name, curve in curves.items():
        solved.errorbar(curve.seconds, 100 * curve.solved, 100 * curve.solved_ci95, marker="o", capsize=3, label=name)
        order.plot(curve.seconds, curve.greedy_forced, marker="o", label=name)
    order.axhline(floor, color="gray", linestyle="--", label="random order")
    solved.set(title="held-out puzzles solved, margin decoding (%)", xlabel="training seconds")
    order.set(title="held-out: greedy position is definite (S1)", xlabel="training seconds")
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
