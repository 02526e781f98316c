"""The page of a study and its pictures, made from its results alone: for each regime what leads, then the details.

python -m scripts.study.report causes
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from llm_rl.training import need_reports, parse, write_text_whole
from scripts.study.plots import plot_regime
from scripts.study.results import RegimeResults
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
from sudoku_dllm.trials import Records
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.page import fill

HERE = Path(__file__).parent
STUDIES = HERE.parents[1] / "data" / "study"
NAMES = sorted(path.stem for path in HERE.glob("*.yaml"))


@dataclass
class Arguments:
    """The study."""

    study: str = field(metadata={"help": f"One of {', '.join(NAMES)}."})
    page: Path | None = field(
        default=None, metadata={"help": "Where to write, pictures in images/ beside; by default beside the results."}
    )

    def __post_init__(self) -> None:
        if self.study not in NAMES:
            raise ValueError(f"study={self.study!r} is unknown; use one of {', '.join(NAMES)}")


def write_report(name: str, path: Path) -> None:
    """Write the page of a study and one picture for each regime, `images/study_<regime>.png` beside it.

    Args:
        name: The study: NAME.yaml here says in which order its regimes and arms are told, and with which remarks.
        path: Markdown to write; an existing file is replaced.
    """
    told = yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8"))
    regimes = [RegimeResults(Records(STUDIES / name), regime, **words) for regime, words in told["regimes"].items()]
    images = path.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    parts = [fill(HERE / "page.md", {"study": name})]
    if "remarks" in told:
        parts.append(told["remarks"].strip() + "\n")
    for results in regimes:
        sizes = ", ".join(f"{puzzles}: {found['puzzles']} puzzles" for puzzles, found in results.sets.items())
        machines = "; ".join(sorted({result["machine"] for result in results.results.values()}))
        seeds = results.seeds(results.reference)
        parts.append(f"## {results.name}\n\n{sizes}; seeds {seeds}; weights: last. {machines}.\n")
        picture = f"study_{results.name}.png"
        plot_regime(results, images / picture)
        parts += [*_lead(results), f"![{results.name}](images/{picture})\n"]
        if results.remarks:
            parts.append(f"### Remarks\n\n{results.remarks.strip()}\n")
        parts += _details(results)
    write_text_whole(path, "\n".join(parts))


def _lead(results: RegimeResults) -> Sequence[str]:
    """What a reader needs: solve rates with differences to the reference, and passes for its solve rate."""
    reference, target = results.reference, next(label for label, tokens in results.by_tokens.items() if tokens == 1)
    known = []
    for puzzles in results.sets:
        rate, passes = (results.figure(reference, puzzles, target, of) for of in ("solved", "forward_passes"))
        known.append(f"{100 * rate:.1f} % ({puzzles.replace('_', ' ')}) in {passes:.1f} forward passes a puzzle")
    return [
        f"### Solved\n\nBy tokens per step, and below the difference to {reference}, with the intervals over puzzles "
        f"and over seeds.\n\n{lead_table(results)}",
        f"### Passes for the solve rate of {reference} at one token a step\n\nBy `{target}` it solves "
        f"{' and '.join(known)}. The fewest passes in which each arm solves as much, by each sweep, with the "
        "intervals over puzzles and over seeds; ≤ where the cheapest setting of the sweep does.\n\n"
        f"{passes_table(results, target)}",
    ]


def _details(results: RegimeResults) -> Sequence[str]:
    """All tables, each under a heading, folded away."""
    parts = ["### Details\n\n<details>\n<summary>Every decoding, order, all pairs of arms, cost</summary>\n"]
    for puzzles in results.sets:
        of = "" if puzzles == "test" else f", {puzzles.replace('_', ' ')}"
        if BASE in results.arms:
            parts.append(f"#### Room for order{of}\n\n{room_table(results, puzzles)}")
        parts += [
            f"#### Solved by each decoding{of}\n\nMean ± over puzzles / ± over seeds.\n\n"
            f"{solved_table(results, puzzles)}",
            f"#### Order{of}\n\nBy `{next(iter(results.ways))}` where not said.\n\n{order_table(results, puzzles)}",
            f"#### Differences{of}\n\n{difference_table(results, puzzles)}",
            f"#### At equal forward passes{of}\n\n{sweep_table(results, puzzles)}",
        ]
    return [*parts, f"#### Cost\n\nMeans over seeds.\n\n{cost_table(results)}\n</details>\n"]


def main() -> None:
    """The command line."""
    (args,) = parse(Arguments, description=__doc__, places=("study",))
    need_reports()
    path = args.page or STUDIES / args.study / "tables.md"
    write_report(args.study, path)
    print(f"{path} written.")


if __name__ == "__main__":
    main()
