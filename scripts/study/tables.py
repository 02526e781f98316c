"""The tables of a study in Markdown: one that leads, and the details."""

from collections.abc import Sequence

from scripts.study.config import BASE, Decoding
from scripts.study.results import RegimeResults, by_tokens, order, solved, sweeps, ways
from sudoku_dllm.trials import Estimate
from sudoku_dllm.trials.words import bold, interval, markdown_table, passes, percent, share, signed

COSTS = ("cpu_seconds", "updates", "puzzles_seen")


def lead_table(results: RegimeResults, sets: Sequence[str]) -> str:
    """What each arm solves on each set of puzzles by the number of tokens per step, and its lead over the reference.

    A cell has the solve rate; below it the difference, with the interval over puzzles and the one over seeds.
    """
    columns = [(puzzles, how) for puzzles in sets for how in by_tokens(results.regime)]
    rows = []
    for arm in results.arms:
        row = [arm]
        for puzzles, how in columns:
            cell = percent(results.rate(arm, solved(puzzles, how.label)).mean)
            if results.reference not in (None, arm) and results.seeds(arm, results.reference):
                found = results.difference(arm, results.reference, solved(puzzles, how.label))
                cell += f"<br>{bold(_over_puzzles(found), found)} {interval(found.seeds)}"
            row.append(cell)
        rows.append(row)
    return markdown_table(
        ["", *(f"{puzzles.replace('_', ' ')}, {how.tokens_per_step or 'all'} a step" for puzzles, how in columns)], rows
    )


def passes_table(results: RegimeResults, sets: Sequence[str], target: Decoding) -> str:
    """The passes in which each arm solves what the reference does by `target`, for each set and sweep."""
    columns = [(puzzles, name, each) for puzzles in sets for name, each in sweeps(results.regime).items()]
    assert results.reference is not None
    rows = []
    for arm in results.arms:
        row = [arm]
        for puzzles, _, decodings in columns:
            goal = results.reference, solved(puzzles, target.label)
            row.append(passes(results.passes_needed(arm, ways(puzzles, decodings), goal)))
        rows.append(row)
    return markdown_table(["", *(f"{puzzles.replace('_', ' ')}, {name}" for puzzles, name, _ in columns)], rows)


def room_table(results: RegimeResults, puzzles: str) -> str:
    """The room for order: the base by the oracle that fills definite cells first, against margin decoding."""
    rows = []
    for pair in results.regime.room_decodings:
        margin, oracle = (how.label for how in pair)
        rows.append(
            [
                margin,
                share(results.rate(BASE, solved(puzzles, margin))),
                share(results.rate(BASE, solved(puzzles, oracle))),
                _over_puzzles(results.difference(BASE, BASE, solved(puzzles, oracle), solved(puzzles, margin))),
                *(f"{results.figure(BASE, puzzles, label, 'forward_passes'):.1f}" for label in (margin, oracle)),
            ]
        )
    head = ["", "margin", "definite first", "difference, over puzzles", "passes, margin", "passes, definite first"]
    return markdown_table(head, rows)


def solved_table(results: RegimeResults, puzzles: str, labels: Sequence[str]) -> str:
    """Solve rates of all arms by each decoding."""
    rows = [[arm, *(share(results.rate(arm, solved(puzzles, label))) for label in labels)] for arm in results.arms]
    return markdown_table(["", *labels], rows)


def order_table(results: RegimeResults, puzzles: str) -> str:
    """How far the order of all arms follows logic, by each decoding."""
    labels = [one.label for one in results.regime.evaluation]
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


def difference_table(results: RegimeResults, puzzles: str, labels: Sequence[str]) -> str:
    """Differences of solve rates and of order between all pairs of arms that are compared."""
    rows = []
    for first, second in results.pairs():
        each = {label: results.difference(first, second, solved(puzzles, label)) for label in labels}
        each[f"`greedy_definite`, {labels[0]}"] = results.difference(first, second, order(puzzles, labels[0]))
        for name, found in each.items():
            told = [bold(_over_puzzles(found), found), interval(found.seeds), ", ".join(map(signed, found.per_seed))]
            rows.append([f"{first} − {second}", name, *told])
    return markdown_table(["", "decoding", "difference, over puzzles", "over seeds", "each seed"], rows)


def sweep_table(results: RegimeResults, puzzles: str) -> str:
    """Differences of solve rates at equal forward passes between the same pairs, for each sweep."""
    rows = []
    for name, decodings in sweeps(results.regime).items():
        for first, second in results.pairs():
            for at_passes, found in results.sweep_differences(first, second, puzzles, decodings):
                if isinstance(at_passes, tuple):
                    at = f"{at_passes[0]:.1f} to {at_passes[1]:.1f}"
                else:
                    at = "none in common" if at_passes is None else f"{at_passes:g}"
                text = "not reached" if found is None else f"{signed(found[0])} {interval(found[1])}"
                rows.append([name, f"{first} − {second}", at, text])
    return markdown_table(["sweep", "", "forward passes", "difference, over puzzles (bootstrap)"], rows)


def cost_table(results: RegimeResults) -> str:
    """What the arms spent."""
    rows = []
    for arm in results.arms:
        each = results.each(arm)
        figures = [results.mean(arm, name) for name in COSTS]
        ratios = [result["distinct_states"] for result in each if result.get("distinct_states") is not None]
        ratio = f"{sum(ratios) / len(ratios):.2f}" if ratios else "–"
        rows.append([arm, str(len(each)), *(f"{value:,.0f}" for value in figures), ratio])
    return markdown_table(["", "seeds", "CPU seconds", "updates", "puzzles seen", "distinct / visited states"], rows)


def _over_puzzles(found: Estimate) -> str:
    return f"{signed(found.mean)} {interval(found.puzzles)}"
