"""Pictures of a study: solve rates, order by pairs of arms, and solve rate against forward passes."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from llm_rl.training import load_pyplot, save_figure
from scripts.study.results import RegimeResults, order, solved, ways

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_regime(results: RegimeResults, path: Path) -> None:
    """Draw a regime: bars by arm and decoding, order by pairs of arms, and one curve by arm for each sweep.

    Bars have intervals over puzzles, differences of order those over puzzles (thick) and over seeds (thin).

    Args:
        results: Results with at least one arm.
        path: PNG to write; an existing file is replaced whole or not at all.
    """
    plt = load_pyplot()
    arms, labels, found = results.arms, list(results.ways), results.sweeps
    pairs = results.pairs()
    widths = [4 + 0.2 * len(arms) * len(labels), *([5] if pairs else []), *[5] * len(found)]
    figure, axes = plt.subplots(
        1, len(widths), figsize=(sum(widths), 5), width_ratios=widths, squeeze=False, constrained_layout=True
    )
    bars, curves = axes[0, 0], axes[0, len(widths) - len(found) :]
    if pairs:
        _draw_order(results, pairs, labels[0], axes[0, 1])
    for number, arm in enumerate(arms):
        each = [results.rate(arm, solved("test", label)) for label in labels]
        middle = np.array([100 * one.mean for one in each])
        ends = np.array([[100 * end for end in one.puzzles] for one in each])
        places = np.arange(len(labels)) + (number - (len(arms) - 1) / 2) * 0.8 / len(arms)
        bars.bar(places, middle, 0.8 / len(arms), yerr=np.abs(ends.T - middle), capsize=2, label=arm)
        for axis, swept in zip(curves, found.values(), strict=True):
            passes, rates = results.sweep(arm, ways("test", swept)).points()
            axis.plot(passes, 100 * rates, marker="o", label=arm)
    bars.set(title=f"{results.name}: test puzzles solved", ylabel="%", xticks=range(len(labels)))
    bars.set_xticklabels(labels, rotation=30, ha="right")
    bars.set_ylim(bottom=0)
    for axis, name in zip(curves, found, strict=True):
        axis.set(title=name, xlabel="forward passes", ylabel="solved (%)")
    for axis in (bars, *curves):
        axis.legend(fontsize=8, loc="lower right")
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    save_figure(figure, path)
    plt.close(figure)


def _draw_order(results: RegimeResults, pairs: list[tuple[str, str]], label: str, axis: "Axes") -> None:
    """Differences of `greedy_definite` in points, one line a pair."""
    for place, (arm, other) in enumerate(reversed(pairs)):
        found = results.difference(arm, other, order("test", label))
        for interval, width in ((found.puzzles, 4), (found.seeds, 1)):
            if interval is not None:
                axis.plot([100 * end for end in interval], [place, place], color="C0", linewidth=width)
        axis.plot(100 * found.mean, place, "o", color="C1")
    axis.axvline(0, color="gray", linestyle="--")
    axis.set(title="greedy_definite, differences", xlabel="points", yticks=range(len(pairs)))
    axis.set_yticklabels([f"{arm} − {other}" for arm, other in reversed(pairs)])
