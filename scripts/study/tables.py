"""The tables of a study in Markdown: one that leads, and the details."""

import math
from collections.abc import Sequence

from scripts.study.config import Decoding
from scripts.study.results import RegimeResults, by_tokens, sweeps
from sudoku_dllm.trials import Estimate, PassesNeeded

COSTS = ("cpu_seconds", "updates", "puzzles_seen")


def lead_table(results: RegimeResults, sets: Sequence[str]) -> str:
    """What each arm solves on each set of puzzles by the number of tokens per step, and its lead over the reference.

    A cell has the solve rate; below it the difference, with the interval over puzzles and the one over seeds.
    """
    columns = [(puzzles, how) for puzzles in sets for how in by_tokens(results.regime)]
    rows = []
    for arm in results.results:
        row = [arm]
        for puzzles, how in columns:
            cell = _percent(results.solved(arm, puzzles, how.label).mean)
            if results.reference not in (None, arm) and results.seeds(arm, results.reference):
                found = results.difference(arm, results.reference, puzzles, (how.label, how.label))
                cell += f"<br>{_marked(found)} {interval_text(found.seeds)}"
            row.append(cell)
        rows.append(row)
    return markdown_table(
        ["", *(f"{puzzles.replace('_', ' ')}, {how.tokens_per_step or 'all'} a step" for puzzles, how in columns)], rows
    )


def passes_table(results: RegimeResults, sets: Sequence[str], target: Decoding) -> str:
    """The passes in which each arm solves what the reference does by `target`, for each set and sweep."""
    columns = [(puzzles, name, each) for puzzles in sets for name, each in sweeps(results.regime).items()]
    rows = [
        [arm, *(_passes(results.passes_needed(arm, puzzles, decodings, target)) for puzzles, _, decodings in columns)]
        for arm in results.results
    ]
    return markdown_table(["", *(f"{puzzles.replace('_', ' ')}, {name}" for puzzles, name, _ in columns)], rows)


def room_table(results: RegimeResults, puzzles: str) -> str:
    """The room for order: the base by the oracle that fills definite cells first, against margin decoding."""
    rows = []
    for pair in results.regime.room_decodings:
        margin, oracle = (how.label for how in pair)
        rows.append(
            [
                margin,
                _rate(results.solved("base", puzzles, margin)),
                _rate(results.solved("base", puzzles, oracle)),
                difference_text(results.difference("base", "base", puzzles, (oracle, margin))),
                *(f"{results.mean('base', puzzles, label, 'forward_passes'):.1f}" for label in (margin, oracle)),
            ]
        )
    head = ["", "margin", "definite first", "difference, over puzzles", "passes, margin", "passes, definite first"]
    return markdown_table(head, rows)


def solved_table(results: RegimeResults, puzzles: str, labels: Sequence[str]) -> str:
    """Solve rates of all arms by each decoding."""
    rows = [[arm, *(_rate(results.solved(arm, puzzles, label)) for label in labels)] for arm in results.results]
    return markdown_table(["", *labels], rows)


def order_table(results: RegimeResults, puzzles: str) -> str:
    """How far the order of all arms follows logic, by each decoding."""
    labels = [one.label for one in results.regime.evaluation]
    rows = []
    for arm in results.results:
        floor = next(iter(results.results[arm].values()))["sets"][puzzles]["greedy_definite_floor"]
        row = [arm, f"{_percent(results.mean(arm, puzzles, labels[0], 'greedy_definite'))} ({_percent(floor)})"]
        row.append(f"{results.mean(arm, puzzles, labels[0], 'rank_correlation'):.3f}")
        row.append(f"{results.mean(arm, puzzles, labels[0], 'steps_before_error'):.1f}")
        for label in labels:
            definite, chance, passes = (
                results.mean(arm, puzzles, label, name)
                for name in ("chosen_definite", "random_floor", "forward_passes")
            )
            row.append(f"{_percent(definite)} ({_percent(chance)}), {passes:.1f}")
        rows.append(row)
    columns = [f"`{label}`: chosen_definite (random), passes" for label in labels]
    return markdown_table(["", "greedy_definite (random)", "rank correlation", "steps before error", *columns], rows)


def difference_table(results: RegimeResults, puzzles: str, labels: Sequence[str]) -> str:
    """Differences of solve rates and of order between all pairs of arms that are compared."""
    rows = []
    for first, second in results.pairs():
        each = {label: results.difference(first, second, puzzles, (label, label)) for label in labels}
        each[f"`greedy_definite`, {labels[0]}"] = results.order_difference(first, second, puzzles, labels[0])
        for name, found in each.items():
            by_seed = ", ".join(f"{100 * value:+.1f}" for value in found.per_seed)
            rows.append([f"{first} − {second}", name, _marked(found), interval_text(found.seeds), by_seed])
    return markdown_table(["", "decoding", "difference, over puzzles", "over seeds", "each seed"], rows)


def sweep_table(results: RegimeResults, puzzles: str) -> str:
    """Differences of solve rates at equal forward passes between the same pairs, for each sweep."""
    rows = []
    for name, decodings in sweeps(results.regime).items():
        for first, second in results.pairs():
            for passes, found in results.sweep_differences(first, second, puzzles, decodings):
                if isinstance(passes, tuple):
                    at = f"{passes[0]:.1f} to {passes[1]:.1f}"
                else:
                    at = "none in common" if passes is None else f"{passes:g}"
                text = "not reached" if found is None else f"{100 * found[0]:+.1f} {interval_text(found[1])}"
                rows.append([name, f"{first} − {second}", at, text])
    return markdown_table(["sweep", "", "forward passes", "difference, over puzzles (bootstrap)"], rows)


def cost_table(results: RegimeResults) -> str:
    """What the arms spent."""
    rows = []
    for arm, by_seed in results.results.items():
        each = list(by_seed.values())
        figures = [sum(result[name] for result in each) / len(each) for name in COSTS]
        ratios = [result["distinct_states"] for result in each if result.get("distinct_states") is not None]
        ratio = f"{sum(ratios) / len(ratios):.2f}" if ratios else "–"
        rows.append([arm, str(len(each)), *(f"{value:,.0f}" for value in figures), ratio])
    return markdown_table(["", "seeds", "CPU seconds", "updates", "puzzles seen", "distinct / visited states"], rows)


def _passes(found: PassesNeeded | None) -> str:
    if found is None:
        return "–"
    if math.isinf(found.puzzles[0]):
        return "not reached"
    mean = "not reached" if math.isinf(found.passes) else f"{found.passes:.1f}"
    at_most = "≤ " if found.passes <= found.cheapest else ""
    ends = ["–" if each is None else f"[{each[0]:.1f}, {each[1]:.1f}]" for each in (found.puzzles, found.seeds)]
    return f"{at_most}{mean} {' '.join(ends)}".replace("inf", "∞")


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, ending with a line break."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f}"


def _rate(found: Estimate) -> str:
    halves = [found.puzzles, found.seeds]
    return f"{100 * found.mean:.1f} ± " + " / ± ".join(
        f"{50 * (interval[1] - interval[0]):.1f}" for interval in halves if interval is not None
    )


def interval_text(interval: tuple[float, float] | None) -> str:
    """An interval of a difference of shares, in points."""
    return "–" if interval is None else f"[{100 * interval[0]:+.1f}, {100 * interval[1]:+.1f}]"


def difference_text(found: Estimate) -> str:
    """A difference of shares, in points, with its interval over puzzles."""
    return f"{100 * found.mean:+.1f} {interval_text(found.puzzles)}"


def _marked(found: Estimate) -> str:
    mark = "**" if found.excludes_zero else ""
    return f"{mark}{difference_text(found)}{mark}"
