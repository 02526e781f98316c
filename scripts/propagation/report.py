"""The page of the study on traces and its picture, made from its results alone.

python -m scripts.propagation.report
"""

from dataclasses import dataclass, field
from pathlib import Path

from llm_rl.training import load_pyplot, need_reports, parse, save_figure, write_text_whole
from sudoku_dllm.trials import Records
from sudoku_dllm.trials.page import fill
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.words import lead, markdown_table, percent, share

RESULTS = Path(__file__).parents[2] / "data" / "study" / "propagation"
TOKENS_PER_STEP = (1, 4)
CELLS = [(kind, tokens) for kind in ("test", "hard_test") for tokens in TOKENS_PER_STEP]
MAIN = ("sft", "sft_definite", "ce_4", "ce_definite_4", "placebo_4", "log_f_4", "log_f_ce_definite_4")
"""The arms whose comparison is the study; others say where the gain ends, or speak for other explanations."""
CONTROLS = (
    "ce_4_half_rate", "placebo_4_half_rate", "sft_256_examples", "sft_spliced", "sft_definite_spliced",
    "log_f_ce_definite_4_spliced",
)  # fmt: skip
COMPARED = (
    ("sft_definite", "sft"),
    ("log_f_ce_definite_4", "sft"),
    ("log_f_4", "sft"),
    ("ce_definite_4", "sft"),
    ("ce_4", "sft"),
    ("placebo_4", "sft"),
    ("log_f_4", "placebo_4"),
    ("log_f_4", "ce_4"),
    ("log_f_ce_definite_4", "ce_definite_4"),
)
"""Which arm is compared with which."""
UNLABELLED = ("sft", "ce_4", "placebo_4")
"""The arms that are not told what is definite."""
PICTURE = "propagation.png"


@dataclass
class Arguments:
    """The page."""

    page: Path = field(default=RESULTS / "tables.md", metadata={"help": "Where to write, the picture in images/."})


def write_report(path: Path) -> None:
    """Write the page, and its picture to `images/` beside it.

    Args:
        path: Markdown to write; an existing file is replaced.
    """
    found = Results(Records(RESULTS), (*MAIN, *CONTROLS))
    (path.parent / "images").mkdir(parents=True, exist_ok=True)
    _draw(found, path.parent / "images" / PICTURE)
    tables = {
        "seeds": found.seeds(*MAIN),
        "machines": "; ".join(sorted({result["machine"] for result in found.results.values()})),
        "solved": _solved_table(found),
        "differences": _difference_table(found),
        "training": _training_table(found),
        "controls": _control_table(found),
    }
    write_text_whole(path, fill(Path(__file__).with_name("page.md"), tables))


def _solved_table(found: Results) -> str:
    rows = [[f"`{arm}`", *(share(found.rate(arm, _name(cell))) for cell in CELLS)] for arm in MAIN]
    return markdown_table(["", *map(_title, CELLS)], rows)


def _difference_table(found: Results) -> str:
    rows = [
        [f"`{first}` − `{second}`", *(lead(found.difference(first, second, _name(cell))) for cell in CELLS)]
        for first, second in COMPARED
    ]
    return markdown_table(["", *map(_title, CELLS)], rows)


def _training_table(found: Results) -> str:
    rows = []
    for arm in MAIN:
        shares = [_mean(found, arm, name) for name in ("train/1", "test/1", "test/greedy_definite")]
        cost = [f"{found.each(arm)[0]['updates']:,.0f}", f"{found.mean(arm, 'cpu_seconds'):.0f}"]
        rows.append([f"`{arm}`", *cost, *shares])
    head = ["", "updates", "CPU seconds", "solved of the examples", "of the tests", "surest position definite"]
    return markdown_table(head, rows)


def _control_table(found: Results) -> str:
    rows = []
    for name in CONTROLS:
        cells = [_mean(found, name, _name(cell)) for cell in CELLS]
        rows.append([f"`{name}`", str(len(found.each(name))), *cells, _mean(found, name, "train/1")])
    return markdown_table(["", "seeds", *map(_title, CELLS), "of the examples"], rows)


def _draw(found: Results, path: Path) -> None:
    """Bars of what each arm solves of `test`, with both intervals, and a dot for each seed."""
    plt = load_pyplot()
    figure, axes = plt.subplots(1, len(TOKENS_PER_STEP), figsize=(11, 4), sharey=True, constrained_layout=True)
    for axis, tokens in zip(axes, TOKENS_PER_STEP, strict=True):
        for place, arm in enumerate(MAIN):
            rate = found.rate(arm, f"test/{tokens}")
            low, high = rate.seeds or rate.puzzles
            bars = [[100 * (rate.mean - low)], [100 * (high - rate.mean)]]
            axis.bar(place, 100 * rate.mean, yerr=bars, capsize=4, color="C7" if arm in UNLABELLED else "C0")
            axis.plot([place] * len(rate.per_seed), [100 * one for one in rate.per_seed], "k.", alpha=0.5)
        axis.set(title=f"{tokens} token{'s' * (tokens > 1)} a step", xticks=range(len(MAIN)), ylim=(0, 100))
        axis.set_xticklabels(MAIN, rotation=25, ha="right")
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel("held-out traces solved (%)")
    save_figure(figure, path)
    plt.close(figure)


def _title(cell: tuple[str, int]) -> str:
    return f"{cell[0].replace('_', ' ')}, {cell[1]} a step"


def _name(cell: tuple[str, int]) -> str:
    return f"{cell[0]}/{cell[1]}"


def _mean(found: Results, arm: str, name: str) -> str:
    return percent(found.mean(arm, "solved", name))


if __name__ == "__main__":
    (args,) = parse(Arguments, description=__doc__)
    need_reports()
    write_report(args.page)
    print(f"{args.page} written.")
