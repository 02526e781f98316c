"""What a model that matches the data perfectly completes validly, by cells a pass: exact on 4×4, by decodes on 6×6.

Boards are random clues of random grids. On 4×4 the figures are the exact means over all such boards; on 6×6 the
marginals are exact, and boards and decodes are drawn; on 9×9 the first pass on the empty board is drawn alone. Prints
tables, and writes the figures as `ceilings.csv` with a picture.

    python -m scripts.several_answers.ceilings --page data/study/ceilings/tables.md
"""

from dataclasses import dataclass, field
from pathlib import Path

from llm_rl.training import fail, load_pandas, need_reports, need_writable, parse
from scripts.several_answers.report import PICTURE, draw, tables, write_page
from scripts.several_answers.rows import MAIN, ORDERS, decoded_rows, exact_rows, first_pass_rows
from sudoku_dllm.machine import machine


@dataclass
class Arguments:
    """Arguments of `scripts/several_answers/ceilings.py`."""

    orders: list[str] = field(default_factory=lambda: [*ORDERS], metadata={"help": f"Orders, of {'; '.join(ORDERS)}."})
    decodes: int = field(
        default=1000,
        metadata={"help": "Decodes of 6×6 for each figure; 9×9 gets ten times as many first passes; 0: 4×4 alone."},
    )
    clues: list[int] = field(
        default_factory=lambda: [1, 8],
        metadata={"help": "Fewest and most clues of a 6×6 board; each number is as likely."},
    )
    seed: int = field(default=0, metadata={"help": "Random seed of what is drawn."})
    page: str | None = field(default=None, metadata={"help": "Page to write too; its picture goes to images/ beside."})
    output_dir: str = field(default="runs/ceilings", metadata={"help": "Folder of table and picture."})


def main() -> None:
    """Compute, print and write."""
    (args,) = parse(Arguments, description=__doc__)
    if unknown := [name for name in args.orders if name not in ORDERS]:
        fail(f"--orders {unknown} are unknown; choose among {'; '.join(ORDERS)}")
    if not args.orders:
        fail(f"--orders is empty; choose among {'; '.join(ORDERS)}")
    if args.decodes < 0:
        fail(f"--decodes {args.decodes} must be at least 0; 0 leaves out what is drawn")
    if len(args.clues) != 2 or not 0 <= args.clues[0] <= args.clues[1] <= 36:
        fail(f"--clues {args.clues} must be two numbers in 0..36, the cells of a 6×6 board, the fewest first")
    if not 0 <= args.seed:
        fail(f"--seed {args.seed} must not be negative")
    need_writable("output_dir", args.output_dir)
    need_reports()
    rows = exact_rows(args.orders)
    if args.decodes:
        main_orders = [name for name in args.orders if name in MAIN]
        rows += decoded_rows(main_orders, args.decodes, (args.clues[0], args.clues[1]), args.seed)
        rows += first_pass_rows(10 * args.decodes, args.seed)
    folder = Path(args.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    load_pandas().DataFrame(rows).to_csv(folder / "ceilings.csv", index=False)
    draw(rows, folder / PICTURE)
    print(f"Per cent of decodes that end in a valid grid; seed {args.seed}. {machine()}")
    for title, table in tables(rows).items():
        print(f"\n{title}\n\n{table}")
    if args.page:
        write_page(rows, Path(args.page), f"Seed {args.seed}. {machine()}.")
        print(f"{args.page} is written.")


if __name__ == "__main__":
    main()
