"""The page docs/several_answers.md and, beside its results, the tables that it leaves out, from what its study kept.

python scripts/train_sudoku.py --arms ARM … --seeds 0 1 2 3 4 --output_dir runs/several_answers    # the study
python -m sudoku_dllm.trials.packing runs/several_answers data/study/several_answers
python -m scripts.several_answers.study --page docs/several_answers.md --tables data/study/several_answers/tables.md
"""

from dataclasses import dataclass
from pathlib import Path

from llm_rl.core._options import option
from llm_rl.training import fail, need_reports, parse, write_text_whole
from scripts.several_answers.decoders import tables as decoder_tables
from scripts.several_answers.outcome_tables import FREE, GUARDED, KEPT, USED, WORTH, guarded_tables, outcomes_in, tables
from sudoku_dllm.several.report import draw
from sudoku_dllm.trials.page import fill
from sudoku_dllm.trials.record import Records

SHOWN = {"worth": WORTH, "used": USED, "shown": FREE}
"""Tables of the page by its markers."""
HERE, PICTURE = Path(__file__).parent, "several_answers.png"


@dataclass
class Arguments:
    """Arguments of `scripts/several_answers/study.py`."""

    study: str = option("data/study/several_answers", "Folder of the results, of a run or packed.")
    tables: Path = option(Path("data/study/several_answers/tables.md"), "File of all tables, to be written.")
    page: str = option("docs/several_answers.md", "Page to write; its picture goes to images/ beside.")


def main() -> None:
    """Write page, picture and tables."""
    (args,) = parse(Arguments, description=__doc__, places=("tables",))
    need_reports()
    folder, page = Path(args.study), Path(args.page)
    if not Records(folder).jobs():
        fail(f"--study {folder} has no results; see --help for how to make them")
    outcomes, guarded = outcomes_in(folder), outcomes_in(folder, GUARDED)
    results = [*outcomes.results.values(), *guarded.results.values()]
    days: dict[str, list[str]] = {}
    for machine, day in sorted({tuple(result["machine"].rsplit(", ", 1)) for result in results}):
        days.setdefault(machine, []).append(day)
    machines = [", ".join([machine, *each]) for machine, each in days.items()]
    (page.parent / "images").mkdir(parents=True, exist_ok=True)
    draw(outcomes, page.parent / "images" / PICTURE, KEPT)
    shown = {**guarded_tables(guarded), **tables(outcomes), **decoder_tables(Records(folder))}
    text = "\n".join(f"## {title}\n\n{one}" for title, one in shown.items() if title not in SHOWN.values())
    write_text_whole(args.tables, fill(HERE / "tables.md", {"sections": text}))
    told = {"machines": "; ".join(machines), **{name: shown[title] for name, title in SHOWN.items()}}
    write_text_whole(page, fill(HERE / "page.md", told))
    print(f"{page} and {args.tables} are written.")


if __name__ == "__main__":
    main()
