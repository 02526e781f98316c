"""Pictures of a study: solve rates with their intervals, and solve rate against forward passes."""

from pathlib import Path

import numpy as np

from dllm_rl.plots import save_figure
from dllm_rl.study_results import RegimeResults, sweeps


def plot_regime(results: RegimeResults, path: str | Path) -> None:
    """Draw a regime: bars by arm and decoding, and one curve by arm for each sweep, with intervals over puzzles.

    Args:
        results: Results with at least one arm.
        path: PNG to write; an existing file is replaced whole or not at all.

    Raises:
        ValueError: There is no result.
    """
    if not results.results:
        raise ValueError(f"regime {results.name!r} has no result to draw; run it first")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    arms, labels, found = (
        list(results.results),
        [one.label for one in results.regime.evaluation],
        sweeps(results.regime),
    )
    figure, axes = plt.subplots(
        1, 1 + len(found), figsize=(5 + 0.25 * len(arms) * len(labels) + 5 * len(found), 5), squeeze=False,
        constrained_layout=True,
    )  # fmt: skip
    bars, curves = axes[0, 0], axes[0, 1:]
    for number, arm in enumerate(arms):
        each = [results.solved(arm, "test", label) for label in labels]
        middle = np.array([100 * one.mean for one in each])
        ends = np.array([[100 * end for end in one.puzzles] for one in each])
        places = np.arange(len(labels)) + (number - (len(arms) - 1) / 2) * 0.8 / len(arms)
        bars.bar(places, middle, 0.8 / len(arms), yerr=np.abs(ends.T - middle), capsize=2, label=arm)
        for axis, decodings in zip(curves, found.values(), strict=True):
            passes, solved = results.sweep(arm, "test", decodings, results.seeds(arm)).points()
            axis.plot(passes, 100 * solved, marker="o", label=arm)
    bars.set(title=f"{results.name}: test puzzles solved", ylabel="%", xticks=range(len(labels)))
    bars.set_xticklabels(labels, rotation=30, ha="right")
    bars.set_ylim(bottom=0)
    for axis, name in zip(curves, found, strict=True):
        axis.set(title=name, xlabel="forward passes", ylabel="solved (%)")
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    save_figure(figure, Path(path))
    plt.close(figure)
