"""The tables of a study in Markdown."""

import math

from scripts.study.results import RegimeResults, order, solved, ways
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.results import Name
from sudoku_dllm.trials.words import lead, markdown_table, passes, percent, share

COSTS = ("cpu_seconds", "updates", "puzzles_seen")


def lead_table(results: RegimeResults) -> str:
    """What each arm solves on each set of puzzles by tokens per step, its `greedy_definite`, and its lead in both.

    A cell has the figure; below it the difference to the reference, with the interval over puzzles and the one over
    seeds. Other pairs that are told have a row of differences.
    """
    first, columns = next(iter(results.ways)), dict[str, Name]()
    for puzzles in results.sets:
        of = puzzles.replace("_", " ")
        columns |= {f"{of}, {k} a step": solved(puzzles, label) for label, k in results.by_tokens.items()}
        columns |= {f"{of}, `greedy_definite`": order(puzzles, first)}
    rows = []
    for arm in results.arms:
        row = [arm]
        for name in columns.values():
            cell = percent(results.rate(arm, name).mean)
            if arm != results.reference:
                cell += f"<br>{lead(results.difference(arm, results.reference, name))}"
            row.append(cell)
        rows.append(row)
    for one, other in results.told:
        leads = (lead(results.difference(one, other, name)) for name in columns.values())
        rows.append([f"{one} − {other}", *leads])
    return markdown_table(["", *columns], rows)


def passes_table(results: RegimeResults) -> str:
    """The passes in which each arm solves what the reference does at one token a step, for each set and sweep."""
    target = next(label for label, tokens in results.by_tokens.items() if tokens == 1)
    columns = [(puzzles, name, each) for puzzles in results.sets for name, each in results.sweeps.items()]
    rows = []
    for arm in results.arms:
        row = [arm]
        for puzzles, _, labels in columns:
            goal = results.reference, solved(puzzles, target)
            row.append(passes(results.passes_needed(arm, ways(puzzles, labels), goal)))
        rows.append(row)
    return markdown_table(["", *(f"{puzzles.replace('_', ' ')}, {name}" for puzzles, name, _ in columns)], rows)


def room_table(results: RegimeResults, puzzles: str) -> str:
    """The room for order: the base by the oracle that fills definite cells first, against margin decoding."""
    rows = [
        [
            margin,
            share(results.rate(BASE, solved(puzzles, margin))),
            share(results.rate(BASE, solved(puzzles, oracle))),
            lead(results.difference(BASE, BASE, solved(puzzles, oracle), solved(puzzles, margin))),
            *(f"{results.figure(BASE, puzzles, label, 'forward_passes'):.1f}" for label in (margin, oracle)),
        ]
        for margin, oracle in results.room.items()
    ]
    head = ["", "margin", "definite first", "difference, over puzzles", "passes, margin", "passes, definite first"]
    return markdown_table(head, rows)


def others_table(results: RegimeResults, puzzles: str) -> str:
    """What all arms solve, in so many passes, by each decoding that no number of tokens limits."""
    labels = [label for label in results.ways if label not in results.by_tokens]
    rows = []
    for arm in results.arms:
        rates = (percent(results.rate(arm, solved(puzzles, label)).mean) for label in labels)
        spent = (f"{results.figure(arm, puzzles, label, 'forward_passes'):.1f}" for label in labels)
        rows.append([arm, *map(" in ".join, zip(rates, spent, strict=True))])
    return markdown_table(["", *labels], rows) if labels else ""


def cost_table(results: RegimeResults) -> str:
    """What the arms spent."""
    rows = []
    for arm in results.arms:
        costs = [f"{results.mean(arm, name):,.0f}" for name in COSTS]
        ratio = results.mean(arm, "distinct_states")
        rows.append([arm, str(len(results.each(arm))), *costs, "–" if math.isnan(ratio) else f"{ratio:.2f}"])
    return markdown_table(["", "seeds", "CPU seconds", "updates", "puzzles seen", "distinct / visited states"], rows)
