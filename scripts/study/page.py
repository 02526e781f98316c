"""The page of a study: `report.html` in its folder, with the tables that lead and the loss of every arm."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scripts.study.arm import METRICS, REPLAYS
from scripts.study.results import RegimeResults, by_tokens, sweeps
from scripts.study.tables import cost_table, lead_table, order_table, passes_table
from sudoku_dllm.machine import versions
from sudoku_dllm.run_page import PAGE, Curve, Page, Replay, Table, loss_curve, replays_of_json
from sudoku_dllm.trials import job_name


def write_page(found: Sequence[RegimeResults], runs: Path, command: str) -> Path:
    """Write the page of what is there.

    The decodes to be played are those of the last arm of each regime with its first seed.

    Args:
        found: Results, one for each regime.
        runs: Folder of the study.
        command: What made the results.

    Returns:
        Its path.
    """
    there = [results for results in found if results.results]
    every = [one for results in there for one in results.results.values()]
    return Page(
        title=f"{runs.name}: a study",
        facts={
            "command": command,
            "regimes": ", ".join(f"{results.name} (seeds {list(results.regime.seeds)})" for results in there),
            "training": f"{sum(one['cpu_seconds'] for one in every) / 3600:.1f} CPU hours in {len(every)} trainings",
            "machine": "; ".join(sorted({one["machine"] for one in every})),
            "versions": f"{versions()} (of this page)",
        },
        arguments={results.name: {arm: results.regime.settings(arm) for arm in results.arms} for results in there},
        tables=[table for results in there for table in _tables(results)],
        curves=[_loss(results, runs) for results in there],
        replays=[replay for results in there for replay in _replays(results, runs)],
    ).write(runs / PAGE)


def _tables(results: RegimeResults) -> list[Table]:
    sets = list(next(iter(results.results.values()))["sets"])
    reference = results.reference
    below = f"; then the difference to {reference}, with the intervals over puzzles and over seeds" if reference else ""
    tables = [Table.from_markdown(f"{results.name}: solved", lead_table(results, sets), f"Per cent{below}.")]
    target = next((how for how in by_tokens(results.regime) if how.tokens_per_step == 1), None)
    if reference and target and sweeps(results.regime):
        note = f"Forward passes a puzzle for what {reference} solves at one token a step."
        tables.append(Table.from_markdown(f"{results.name}: passes", passes_table(results, sets, target), note))
    tables += [Table.from_markdown(f"{results.name}: order, {name}", order_table(results, name)) for name in sets]
    return [*tables, Table.from_markdown(f"{results.name}: cost", cost_table(results), "Means over seeds.")]


def _loss(results: RegimeResults, runs: Path) -> Curve:
    """The loss of each arm with its first seed."""
    curve = loss_curve({arm: _first(results, runs, arm) / METRICS for arm in results.arms})
    return replace(curve, title=f"{results.name}: {curve.title.lower()}")


def _replays(results: RegimeResults, runs: Path) -> list[Replay]:
    """The decodes that the last arm kept; none from a folder of results alone."""
    path = _first(results, runs, results.arms[-1]) / REPLAYS
    if not path.is_file():
        return []
    kept = replays_of_json(json.loads(path.read_text(encoding="utf-8")))
    return [replace(each, title=f"{results.name}, {each.title}") for each in kept]


def _first(results: RegimeResults, runs: Path, arm: str) -> Path:
    """The folder of an arm with its first seed."""
    return runs / job_name(results.name, arm, seed=min(results.seeds(arm)))
