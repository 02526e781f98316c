"""The report of a study in Markdown, made from the results alone: for each regime what leads, then the details."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from llm_rl.training import write_text_whole
from scripts.study.config import BASE
from scripts.study.plots import plot_regime
from scripts.study.results import RegimeResults, by_tokens, sweeps
from scripts.study.tables import (
    cost_table,
    difference_table,
    lead_table,
    order_table,
    passes_table,
    room_table,
    solved_table,
    sweep_table,
)
from sudoku_dllm.trials.page import fill


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
    parts = [fill(Path(__file__).with_name("page.md"), {"command": command})]
    if remarks:
        parts.append(remarks.strip() + "\n")
    for results in found:
        parts.append(f"## {results.name}\n")
        if not results.results:
            parts.append("Not run yet.\n")
            continue
        every = list(results.results.values())
        sizes = {name: result["puzzles"] for name, result in every[0]["sets"].items()}
        parts.append(
            f"{', '.join(f'{name}: {count} puzzles' for name, count in sizes.items())}; seeds "
            f"{list(results.regime.seeds)}; weights: {results.regime.select}. "
            f"{'; '.join(sorted({result['machine'] for result in every}))}.\n"
        )
        picture = f"study_{results.name}.png"
        plot_regime(results, images / picture)
        parts += [*_lead(results, list(sizes)), f"![{results.name}](images/{picture})\n"]
        if results.regime.remarks:
            parts.append(f"### Remarks\n\n{results.regime.remarks.strip()}\n")
        parts += _details(results, sizes)
    write_text_whole(path, "\n".join(parts))


def _lead(results: RegimeResults, sets: Sequence[str]) -> list[str]:
    """What a reader needs: solve rates with differences to the reference, and passes for its solve rate."""
    reference = results.reference
    below = f", and below the difference to {reference}, with the intervals over puzzles and over seeds"
    parts = [f"### Solved\n\nBy tokens per step{below if reference else ''}.\n\n{lead_table(results, sets)}"]
    target = next((how for how in by_tokens(results.regime) if how.tokens_per_step == 1), None)
    if reference and target and sweeps(results.regime):
        known = []
        for puzzles in sets:
            rate, passes = (results.figure(reference, puzzles, target.label, of) for of in ("solved", "forward_passes"))
            known.append(f"{100 * rate:.1f} % ({puzzles.replace('_', ' ')}) in {passes:.1f} forward passes a puzzle")
        parts.append(
            f"### Passes for the solve rate of {reference} at one token a step\n\nBy `{target.label}` it solves "
            f"{' and '.join(known)}. The fewest passes in which each arm solves as much, by each sweep, with the "
            "intervals over puzzles and over seeds; ≤ where the cheapest setting of the sweep does.\n\n"
            f"{passes_table(results, sets, target)}"
        )
    return parts


def _details(results: RegimeResults, sizes: Mapping[str, int]) -> list[str]:
    """All tables, each under a heading, folded away."""
    regime = results.regime
    labels = [one.label for one in regime.evaluation]
    parts = ["### Details\n\n<details>\n<summary>Every decoding, order, all pairs of arms, cost</summary>\n"]
    for puzzles in sizes:
        of = _of(puzzles)
        if BASE in results.arms:
            parts.append(f"#### Room for order{of}\n\n{room_table(results, puzzles)}")
        parts.append(
            f"#### Solved by each decoding{of}\n\nMean ± over puzzles / ± over seeds.\n\n"
            f"{solved_table(results, puzzles, labels)}"
        )
        parts.append(f"#### Order{of}\n\nBy `{labels[0]}` where not said.\n\n{order_table(results, puzzles)}")
        parts.append(f"#### Differences{of}\n\n{difference_table(results, puzzles, labels)}")
        if sweeps(regime):
            parts.append(f"#### At equal forward passes{of}\n\n{sweep_table(results, puzzles)}")
    if regime.hard_share:
        hard, rounds = results.hardest(regime.hard_share)
        title = (
            f"{round(regime.hard_share * sizes['test'])} test puzzles with {rounds} rounds of the rule ladder or more"
        )
        parts.append(
            f"#### The hard tail\n\nSolved, of the {title}.\n\n"
            f"{solved_table(hard, 'test', labels)}\n{difference_table(hard, 'test', labels)}"
        )
    parts.append(f"#### Cost\n\nMeans over seeds.\n\n{cost_table(results)}\n</details>\n")
    return parts


def _of(puzzles: str) -> str:
    """The set of puzzles in a heading, where it is not the test itself."""
    return "" if puzzles == "test" else f", {puzzles.replace('_', ' ')}"
