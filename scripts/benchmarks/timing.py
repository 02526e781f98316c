"""Timing side by side: every contender runs once in every round, so that a busy machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from llm_rl.training import load_pandas, load_pyplot
from sudoku_dllm.machine import machine

if TYPE_CHECKING:
    import pandas as pd


class Contender(NamedTuple):
    """Work to time and how much it does, e.g. 500 puzzles."""

    work: Callable[[], object]
    amount: float


def race(contenders: Mapping[str, Contender], rounds: int) -> dict[str, float]:
    """Median rate of each contender, amount per second, over `rounds` rounds after one that is not counted."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, contender in contenders.items():
            started = time.perf_counter()
            contender.work()
            if number:
                rates[name].append(contender.amount / (time.perf_counter() - started))
    return {name: statistics.median(found) for name, found in rates.items()}


def report(rows: list[dict[str, object]], ours: str, title: str, folder: Path) -> "pd.DataFrame":
    """Print the rates of all contenders and how much faster `ours` is; write both as CSV and as a bar chart.

    Args:
        rows: One dictionary a measurement: "task", the labels, and one rate, per second, for each contender.
        ours: Name of the contender that the others are compared with.
        title: Title of the table and the chart; the files are named after it.
        folder: Folder to write to.
    """
    plt = load_pyplot()
    table = load_pandas().DataFrame(rows).set_index("task")
    for name in [column for column in table.columns if column != ours]:
        table[f"{ours} / {name}"] = table[ours] / table[name]
    print(f"\n{title} (per second, medians)\n{machine()}")
    print(table.to_string(float_format=lambda value: f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"))
    folder.mkdir(parents=True, exist_ok=True)
    stem = title.lower().replace(" ", "_").replace(",", "")
    table.to_csv(folder / f"{stem}.csv")
    rates = table[[column for column in table.columns if " / " not in column]]
    axes = rates[::-1].plot.barh(logx=True, figsize=(9, 1.2 + 0.28 * rates.size), width=0.8)
    axes.set_xlabel("per second (logarithmic)")
    axes.set_ylabel("")
    axes.set_title(f"{title}\n{machine()}", fontsize=9)
    axes.figure.tight_layout()
    axes.figure.savefig(folder / f"{stem}.png", dpi=120)
    plt.close(axes.figure)
    return table
