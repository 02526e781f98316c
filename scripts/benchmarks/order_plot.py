"""Pictures of decoding orders."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llm_rl.training import load_pyplot, save_figure


def plot_order(orders: dict[str, NDArray[np.float64]], path: str | Path) -> None:
    """Draw when each cell is filled, one board for each order; cells that are never blank stay white.

    Args:
        orders: Name → `(n, n)` from 0 (first) to 1 (last), from `dllm_rl.sudoku.order.mean_order`.
        path: PNG to write; an existing file is replaced whole or not at all.

    Raises:
        ValueError: There is no order.
    """
    if not orders:
        raise ValueError("cannot draw no order; pass at least one")
    plt = load_pyplot()
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
