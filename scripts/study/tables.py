"""The tables of a study in Markdown: one that leads, and the details."""

import math

from scripts.study.results import RegimeResults, order, solved, ways
from sudoku_dllm.trials import Estimate
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.words import bold, interval, markdown_table, passes, percent, share, signed

COSTS = ("cpu_seconds", "updates", "puzzles_seen")


def lead_table(results: RegimeResults) -> str:
    """What each arm solves on each set of puzzles by the number of tokens per step, and its lead over the reference.

    A cell has the solve rate; below it the difference, with the interval over puzzles and the one over seeds.
    """
    columns = [(puzzles, label) for puzzles in results.sets for label in results.by_tokens]
    rows = []
    for arm in results.arms:
        row = [arm]
        for column in columns:
            cell = percent(results.rate(arm, solved(*column)).mean)
            if arm != results.reference:
                found = results.difference(arm, results.reference, solved(*column))
                cell += f"<br>{bold(_over_puzzles(found), found)} {interval(found.seeds)}"
            row.append(cell)
        rows.append(row)
    titles = [f"{puzzles.replace('_', ' ')}, {results.by_tokens[label]} a step" for puzzles, label in columns]
    return markdown_table(["", *titles], rows)


def passes_table(results: RegimeResults, target: str) -> str:
    """The passes in which each arm solves what the reference does by `target`, for each set and sweep."""
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
            _over_puzzles(results.difference(BASE, BASE, solved(puzzles, oracle), solved(puzzles, margin))),
            *(f"{results.figure(BASE, puzzles, label, 'forward_passes'):.1f}" for label in (margin, oracle)),
        ]
        for margin, oracle in results.room.items()
    ]
    head = ["", "margin", "definite first", "difference, over puzzles", "passes, margin", "passes, definite first"]
    return markdown_table(head, rows)


def solved_table(results: RegimeResults, puzzles: str) -> str:
    """Solve rates of all arms by each decoding."""
    rows = [[arm, *(share(results.rate(arm, solved(puzzles, one))) for one in results.ways)] for arm in results.arms]
    return markdown_table(["", *results.ways], rows)


def order_table(results: RegimeResults, puzzles: str) -> str:
    """How far the order of all arms follows logic, by each decoding."""
    labels = list(results.ways)
    rows = []
    for arm in results.arms:
        floor = results.each(arm)[0]["sets"][puzzles]["greedy_definite_floor"]
        row = [arm, f"{percent(results.figure(arm, puzzles, labels[0], 'greedy_definite'))} ({percent(floor)})"]
        row.append(f"{results.figure(arm, puzzles, labels[0], 'rank_correlation'):.3f}")
        row.append(f"{results.figure(arm, puzzles, labels[0], 'steps_before_error'):.1f}")
        for label in labels:
            definite, chance, steps = (
                results.figure(arm, puzzles, label, name)
                for name in ("chosen_definite", "random_floor", "forward_passes")
            )
            row.append(f"{percent(definite)} ({percent(chance)}), {steps:.1f}")
        rows.append(row)
    columns = [f"`{label}`: chosen_definite (random), passes" for label in labels]
    return markdown_table(["", "greedy_definite (random)", "rank correlation", "steps before error", *columns], rows)


def difference_table(results: RegimeResults, puzzles: str) -> str:
    """Differences of solve rates and of order between all pairs of arms that are compared."""
    names = {label: solved(puzzles, label) for label in results.ways}
    first_way = next(iter(names))
    rows = []
    for first, second in results.pairs():
        each = {label: results.difference(first, second, name) for label, name in names.items()}
        each[f"`greedy_definite`, {first_way}"] = results.difference(first, second, order(puzzles, first_way))
        for name, found in each.items():
            told = [bold(_over_puzzles(found), found), interval(found.seeds), ", ".join(map(signed, found.per_seed))]
            rows.append([f"{first} − {second}", name, *told])
    return markdown_table(["", "decoding", "difference, over puzzles", "over seeds", "each seed"], rows)


def sweep_table(results: RegimeResults, puzzles: str) -> str:
    """Differences of solve rates at equal forward passes between the same pairs, for each sweep."""
    rows = []
    for name, labels in results.sweeps.items():
        for first, second in results.pairs():
            at, text = "none in common", "not reached"
            if found := results.sweep_difference(first, second, puzzles, labels):
                (least, most), difference, ends = found
                at, text = f"{least:.1f} to {most:.1f}", f"{signed(difference)} {interval(ends)}"
            rows.append([name, f"{first} − {second}", at, text])
    return markdown_table(["sweep", "", "forward passes", "difference, over puzzles (bootstrap)"], rows)


def cost_table(results: RegimeResults) -> str:
    """What the arms spent."""
    rows = []
    for arm in results.arms:
        costs = [f"{results.mean(arm, name):,.0f}" for name in COSTS]
        ratio = results.mean(arm, "distinct_states")
        rows.append([arm, str(len(results.each(arm))), *costs, "–" if math.isnan(ratio) else f"{ratio:.2f}"])
    return markdown_table(["", "seeds", "CPU seconds", "updates", "puzzles seen", "distinct / visited states"], rows)


def _over_puzzles(found: Estimate) -> str:
    return f"{signed(found.mean)} {interval(found.puzzles)}"
