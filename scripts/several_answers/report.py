"""Tables, picture and page of the ceilings."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from llm_rl.training import load_pyplot, save_figure, write_text_whole
from scripts.several_answers.ideal import TOKENS
from scripts.several_answers.rows import CELLS, MAIN, ORDERS, Row
from sudoku_dllm.trials.page import fill, sections_of
from sudoku_dllm.trials.words import markdown_table

CLUES = (0, 2, 4, 6, 8, 10)
PICTURE = "ceilings.png"


def write_page(rows: Sequence[Row], path: Path, about: str) -> None:
    """Write the page, and its picture to `images/` beside it.

    Args:
        rows: All figures.
        path: Markdown to write; an existing file is replaced.
        about: Machine, seed and date, in a sentence.
    """
    (path.parent / "images").mkdir(parents=True, exist_ok=True)
    draw(rows, path.parent / "images" / PICTURE)
    page = Path(__file__).with_name("ceilings.md")
    write_text_whole(path, fill(page, {"about": about, "sections": sections_of(tables(rows))}))


def percent(row: Row) -> str:
    """A share for people, with half its interval where it was drawn."""
    share, half = 100 * row["valid"], 100 * row.get("half_width", np.nan)
    text = f"{share:.1f}" if share >= 0.05 or share == 0 else "< 0.1"
    return text if np.isnan(half) else f"{text} ± {half:.1f}"


def mean_passes(row: Row) -> str:
    """Passes of the valid decodes for people."""
    return "–" if np.isnan(row["passes"]) else f"{row['passes']:.1f}"


def table_of(
    rows: Sequence[Row], column: str, title: Callable[[Any], str], text: Callable[[Row], str] = percent
) -> str:
    """A table in Markdown: a line for an order and a way to take tokens, a column for each value of a column."""
    lines: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        lines.setdefault((row["order"], row["tokens"]), []).append(text(row))
    values = dict.fromkeys(row[column] for row in rows)
    return markdown_table(["order", "tokens", *map(title, values)], [[*key, *cells] for key, cells in lines.items()])


def tables(rows: Sequence[Row]) -> dict[str, str]:
    """The tables, by their titles."""
    by_size = {size: [row for row in rows if row["size"] == size] for size in CELLS}
    empty = [row for row in by_size[4] if row["clues"] == "0"]
    by_clues = [
        row
        for row in by_size[4]
        if row["cells"] == 4 and row["clues"] in map(str, CLUES) and ORDERS[row["order"]].ties == "random"
    ]
    found = {
        "4×4, the empty board": table_of(empty, "cells", _a_pass),
        "4×4, four cells a pass, by clues": table_of(by_clues, "clues", lambda clues: f"{clues} clues"),
    }
    if six := by_size[6]:
        found[f"6×6, {six[0]['clues']} clues"] = table_of(six, "cells", _a_pass)
        found["6×6, passes of the valid decodes"] = table_of(six, "cells", _a_pass, mean_passes)
    if nine := by_size[9]:
        found["9×9, the first pass on the empty board alone"] = table_of(nine, "cells", lambda cells: f"{cells} cells")
    return found


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw per cent valid by cells a pass: the empty 4×4 board, and 6×6 where it was decoded."""
    plt = load_pyplot()
    boards = {"4×4, empty board (exact)": [row for row in rows if (row["size"], row["clues"]) == (4, "0")]}
    if six := [row for row in rows if row["size"] == 6]:
        boards[f"6×6, {six[0]['clues']} clues ({six[0]['decodes']:,} decodes)"] = six
    figure, axes = plt.subplots(
        1, len(boards), figsize=(2.4 + 4.6 * len(boards), 4), sharey=True, squeeze=False, constrained_layout=True
    )
    for axis, (title, of_size) in zip(axes[0], boards.items(), strict=True):
        for order in [name for name in MAIN if any(row["order"] == name for row in of_size)]:
            for tokens in TOKENS:
                points = [row for row in of_size if (row["order"], row["tokens"]) == (order, tokens)]
                axis.errorbar(
                    [row["cells"] for row in points],
                    [100 * row["valid"] for row in points],
                    yerr=[100 * row.get("half_width", 0) for row in points],
                    color="C0" if ORDERS[order].score == "random" else "C1",
                    marker="o",
                    fillstyle="none" if tokens == "sampled" else "full",
                    label=f"{order}, {tokens}",
                )
        ticks = sorted({row["cells"] for row in of_size})
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [str(cells) for cells in ticks])
        axis.set(title=title, xlabel="cells a pass", ylim=(0, 104))
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("valid grids (%)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", handlelength=3)
    save_figure(figure, path)
    plt.close(figure)


def _a_pass(cells: int) -> str:
    return f"{cells} a pass"
