"""The report of a study: tables in Markdown, made from the results alone."""

import math
from collections.abc import Sequence
from pathlib import Path

from dllm_rl.statistics import Estimate
from llm_rl.training.storage import write_text_whole
from scripts.study.plots import plot_regime
from scripts.study.results import RegimeResults, sweeps

COSTS = ("cpu_seconds", "updates", "puzzles_seen")

HEADER = """# Results of the study

Made by `{command}`; do not edit, texts are the remarks of the configuration.

Solve rates are per cent of test puzzles. Intervals are 95 %: *over puzzles* (normal; outcomes averaged over seeds,
differences paired) for other puzzles and the same trainings, *over seeds* (Student's t; differences paired by seed) for
other trainings and the same puzzles. Differences of `greedy_forced` are over all live states together, their intervals
by the delta method. Differences whose two intervals both exclude zero are bold. Budgets are CPU seconds of one thread
while training; "puzzles seen" counts repetitions. `greedy_forced`, `chosen_forced` and forward passes are those of
[decoding](decoding.md), with those of a random order in brackets; the rank correlation is with the rounds of the rule
ladder.
"""


def write_report(found: Sequence[RegimeResults], path: Path, *, remarks: str, command: str) -> None:
    """Write the report and one picture for each regime, `images/study_<regime>.png` beside it.

    Args:
        found: Results, one for each regime.
        path: Markdown to write; an existing file is replaced.
        remarks: Text before the regimes, in Markdown.
        command: What made the results.
    """
    images = path.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    parts = [HEADER.format(command=command)]
    if remarks:
        parts.append(remarks.strip() + "\n")
    for results in found:
        parts.append(f"## {results.name}\n")
        if results.regime.remarks:
            parts.append(results.regime.remarks.strip() + "\n")
        if not results.results:
            parts.append("Not run yet.\n")
            continue
        parts += _regime_parts(results)
        picture = f"study_{results.name}.png"
        plot_regime(results, images / picture)
        parts.append(f"![{results.name}](images/{picture})\n")
    write_text_whole(path, "\n".join(parts))


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
                _difference(results.difference("base", "base", puzzles, (oracle, margin))),
                *(f"{results.mean('base', puzzles, label, 'forward_passes'):.1f}" for label in (margin, oracle)),
            ]
        )
    head = ["", "margin", "definite first", "difference, over puzzles", "passes, margin", "passes, definite first"]
    return markdown_table(head, rows)


def _regime_parts(results: RegimeResults) -> list[str]:
    regime = results.regime
    arms = list(results.results)
    every = [result for by_seed in results.results.values() for result in by_seed.values()]
    sizes = {name: result["puzzles"] for name, result in every[0]["sets"].items()}
    machines = sorted({result["machine"] for result in every})
    parts = [
        f"{', '.join(f'{name}: {count} puzzles' for name, count in sizes.items())}; seeds {list(regime.seeds)}; "
        f"weights: {regime.select}. {'; '.join(machines)}.\n"
    ]
    labels = [one.label for one in regime.evaluation]
    for puzzles in sizes:
        of = "" if puzzles == "test" else f", {puzzles.replace('_', ' ')}"
        if "base" in arms:
            parts.append(f"### Room for order{of}\n\n{room_table(results, puzzles)}")
        parts.append(
            f"### Solved{of}\n\nMean ± over puzzles / ± over seeds.\n\n{_solved_table(results, puzzles, labels)}"
        )
        parts.append(f"### Order{of}\n\nBy `{labels[0]}` where not said.\n\n{_order_table(results, arms, puzzles)}")
        parts.append(f"### Differences{of}\n\n{_difference_table(results, puzzles, labels)}")
        if sweeps(regime):
            parts.append(f"### At equal forward passes{of}\n\n{_sweep_table(results, puzzles)}")
    if regime.hard_share:
        hard, rounds = results.hardest(regime.hard_share)
        title = (
            f"{round(regime.hard_share * sizes['test'])} test puzzles with {rounds} rounds of the rule ladder or more"
        )
        parts.append(
            f"### The hard tail\n\nSolved, of the {title}.\n\n"
            f"{_solved_table(hard, 'test', labels)}\n{_difference_table(hard, 'test', labels)}"
        )
    parts.append(f"### Cost\n\nMeans over seeds.\n\n{_cost_table(results)}")
    return parts


def _solved_table(results: RegimeResults, puzzles: str, labels: Sequence[str]) -> str:
    rows = [[arm, *(_rate(results.solved(arm, puzzles, label)) for label in labels)] for arm in results.results]
    return markdown_table(["", *labels], rows)


def _order_table(results: RegimeResults, arms: Sequence[str], puzzles: str) -> str:
    labels = [one.label for one in results.regime.evaluation]
    rows = []
    for arm in arms:
        floor = next(iter(results.results[arm].values()))["sets"][puzzles]["greedy_forced_floor"]
        row = [arm, f"{_percent(results.mean(arm, puzzles, labels[0], 'greedy_forced'))} ({_percent(floor)})"]
        row.append(f"{results.mean(arm, puzzles, labels[0], 'rank_correlation'):.3f}")
        row.append(f"{results.mean(arm, puzzles, labels[0], 'steps_before_error'):.1f}")
        for label in labels:
            definite, chance, passes = (
                results.mean(arm, puzzles, label, name) for name in ("chosen_forced", "random_floor", "forward_passes")
            )
            row.append(f"{_percent(definite)} ({_percent(chance)}), {passes:.1f}")
        rows.append(row)
    columns = [f"`{label}`: chosen_forced (random), passes" for label in labels]
    return markdown_table(["", "greedy_forced (random)", "rank correlation", "steps before error", *columns], rows)


def _difference_table(results: RegimeResults, puzzles: str, labels: Sequence[str]) -> str:
    rows = []
    for first, second in results.pairs():
        each = {label: results.difference(first, second, puzzles, (label, label)) for label in labels}
        each[f"`greedy_forced`, {labels[0]}"] = results.order_difference(first, second, puzzles, labels[0])
        for name, found in each.items():
            mark = "**" if found.excludes_zero else ""
            by_seed = ", ".join(f"{100 * value:+.1f}" for value in found.per_seed)
            rows.append(
                [f"{first} − {second}", name, f"{mark}{_difference(found)}{mark}", _interval(found.seeds), by_seed]
            )
    return markdown_table(["", "decoding", "difference, over puzzles", "over seeds", "each seed"], rows)


def _sweep_table(results: RegimeResults, puzzles: str) -> str:
    rows = []
    for name, decodings in sweeps(results.regime).items():
        for first, second in results.pairs():
            for passes, found in results.sweep_differences(first, second, puzzles, decodings):
                if isinstance(passes, tuple):
                    at = f"{passes[0]:.1f} to {passes[1]:.1f}"
                else:
                    at = "none in common" if passes is None else f"{passes:g}"
                text = "not reached" if found is None else f"{100 * found[0]:+.1f} {_interval(found[1])}"
                rows.append([name, f"{first} − {second}", at, text])
    return markdown_table(["sweep", "", "forward passes", "difference, over puzzles (bootstrap)"], rows)


def _cost_table(results: RegimeResults) -> str:
    rows = []
    for arm, by_seed in results.results.items():
        each = list(by_seed.values())
        figures = [sum(result[name] for result in each) / len(each) for name in COSTS]
        ratios = [result["distinct_states"] for result in each if result.get("distinct_states") is not None]
        ratio = f"{sum(ratios) / len(ratios):.2f}" if ratios else "–"
        rows.append([arm, str(len(each)), *(f"{value:,.0f}" for value in figures), ratio])
    return markdown_table(["", "seeds", "CPU seconds", "updates", "puzzles seen", "distinct / visited states"], rows)


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


def _interval(interval: tuple[float, float] | None) -> str:
    return "–" if interval is None else f"[{100 * interval[0]:+.1f}, {100 * interval[1]:+.1f}]"


def _difference(found: Estimate) -> str:
    return f"{100 * found.mean:+.1f} {_interval(found.puzzles)}"
