"""Tables, picture and page of the ceilings."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from llm_rl.training import load_pyplot, save_figure, write_text_whole
from scripts.several_answers.ideal import TOKENS
from scripts.several_answers.rows import CELLS, MAIN, ORDERS, Row
from sudoku_dllm.trials.words import markdown_table

CLUES = (0, 2, 4, 6, 8, 10)
PICTURE = "ceilings.png"


HEADER = """# Ceilings: what a model of the data can complete

Made by `python -m scripts.several_answers.ceilings --page data/study/ceilings/tables.md`; do not edit.

A board with few clues has many completions. A model that matches the data perfectly has the marginals of a random
one: p(v | cell, board) is the share of the board's completions with digit v in the cell. Cells that one pass fills
are drawn independently of each other, so their digits can be right one by one and wrong together. What such a model
completes validly is therefore a ceiling of supervised training on random grids, for each order and number of cells a
pass: more data, a larger model or longer training do not lift it. A label that settles on one completion of each
board can, if it can be learned, and so can a reward.

## How it is computed

After each pass the marginals are those of the completions that agree with all that is written; a board without any is
a failure. With P(S | s) the probability that a pass on the board s fills the cells S, the probability of a valid grid
is

    V(s) = Σ_S P(S | s) Σ_v Π_(ℓ in S) p(v_ℓ | ℓ, s) · V(s with v written in S)

over all ways v to fill S that leave a completion, and 1 for a full valid grid. On 4×4 the 288 grids and all boards
that they complete are enumerated, and every figure is exact: the mean over all boards with so many clues, each a
random set of cells of a random grid. On 6×6 the marginals are exact too, from all 28,200,960 grids (39,168 up to a
relabeling of the digits); boards and decodes are drawn, one decode of each board, and ± is half of Wilson's 95 %
interval. On 9×9 the completions of a board with few clues can be neither listed nor drawn evenly in reasonable time,
so there is only a bound: how often the first pass on the empty board, where all marginals are 1/9, leaves any
completion.

- **Orders**: *random*; *margin*, the largest ratio of the two largest marginals; *probability*, the largest marginal.
  Equal cells are chosen among at random, or *to the left*, in reading order: neighbors then share a pass, and clash.
- **Tokens**: *sampled* from the marginal, or the *most probable* one, drawn among equals.
- **No peers**: a pass never fills two cells of one row, column or box, so no more than n on a board of size n; where
  fewer go together it is shorter, and a decode takes more passes.

At one cell a pass nothing fails: a digit with a positive marginal is in some completion.

![Per cent of decodes that end in a valid grid, by cells a pass](images/ceilings.png)

{about}

## What to read from it

- Confidence is no help where peers may share a pass: on 6×6, and on the empty 4×4 board, the order by margin completes
  no more boards than the random one, and mostly fewer.
- Keeping peers out of a pass lifts the ceiling most, and takes the rules of Sudoku to know. It does not lift it to the
  top: cells that are no peers constrain each other through third ones.
- A model that completes more than its row says does not have the marginals of random grids any more: it has settled on
  some of the answers, or its cells agree.
"""


def write_page(rows: Sequence[Row], path: Path, about: str) -> None:
    """Write the page, and its picture to `images/` beside it.

    Args:
        rows: All figures.
        path: Markdown to write; an existing file is replaced.
        about: Machine, seed and date, in a sentence.
    """
    (path.parent / "images").mkdir(parents=True, exist_ok=True)
    draw(rows, path.parent / "images" / PICTURE)
    titled = [f"## {title}\n\n{table}" for title, table in tables(rows).items()]
    write_text_whole(path, "\n".join([HEADER.format(about=about), *titled]))


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
                    linestyle="-" if ORDERS[order].peers else "--",
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
