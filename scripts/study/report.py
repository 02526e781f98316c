"""The page of a study and its pictures, made from its results alone.

python -m scripts.study.report causes
"""

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from llm_rl.training import need_reports, parse, write_text_whole
from scripts.study.plots import plot_regime
from scripts.study.results import RegimeResults
from scripts.study.tables import cost_table, lead_table, others_table, passes_table, room_table
from sudoku_dllm.trials import Records
from sudoku_dllm.trials.arguments import BASE
from sudoku_dllm.trials.page import fill
from sudoku_dllm.trials.words import percent

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
        sizes = ", ".join(
            f"{puzzles}: {found['puzzles']} puzzles, definite at random {percent(found['greedy_definite_floor'])} %"
            for puzzles, found in results.sets.items()
        )
        machines = "; ".join(sorted({result["machine"] for result in results.results.values()}))
        seeds = results.seeds(results.reference)
        parts.append(f"## {results.name}\n\n{sizes}; seeds {seeds}; weights: last. {machines}.\n")
        picture = f"study_{results.name}.png"
        plot_regime(results, images / picture)
        parts.append(f"### Solved\n\n{lead_table(results)}")
        parts.append(f"### Passes for what {results.reference} solves at one token a step\n\n{passes_table(results)}")
        parts.append(f"![{results.name}](images/{picture})\n")
        if results.remarks:
            parts.append(f"### Remarks\n\n{results.remarks.strip()}\n")
        for puzzles in results.sets:
            of = "" if puzzles == "test" else f", {puzzles.replace('_', ' ')}"
            if BASE in results.arms:
                parts.append(f"### Room for order{of}\n\n{room_table(results, puzzles)}")
            if others := others_table(results, puzzles):
                parts.append(f"### Solved by other decodings, in passes{of}\n\n{others}")
        parts.append(f"### Cost\n\n{cost_table(results)}")
    write_text_whole(path, "\n".join(parts))


def main() -> None:
    """The command line."""
    (args,) = parse(Arguments, description=__doc__, places=("study",))
    need_reports()
    path = args.page or STUDIES / args.study / "tables.md"
    write_report(args.study, path)
    print(f"{path} written.")


if __name__ == "__main__":
    main()
