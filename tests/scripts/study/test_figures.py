"""Figures that README and pages repeat are those of the tables that they are taken from."""

import re
from pathlib import Path

import pytest

ROOT, NUMBER = Path(__file__).parents[3], r"[-+]?\d[\d,]*(?:\.\d+)?"
SEVERAL = "several_answers/tables.md"
FREE, WORTH = (("../../docs/several_answers.md", f"# {name}\n") for name in ("Without a check", "Several right.*?"))
FEW, PASSES = (("causes/tables.md", f"## few_examples{end}") for end in ("\n", "_passes\n.*?### Passes"))
TOKENS, TRACES = ("several_tokens/tables.md", "### Solved"), ("propagation/tables.md", "## Differences")
BIAS, MORE = (("referee/tables.md", f"Trained by {how}") for how in ("data", "reward"))
BOARDS, GRIDS = ("referee/trained.md", "## boards\n"), ("../models/llada-sudoku9x9/README.md", "Test grids")
FIVE, LEAD, LEAST = "| # | # | # | # | # |", "# [#, #] [#, #]", "SFT on the least completion"
METHODS = ("diffu-GRPO", "wd1", "coupled-GRPO", "SPG, mixed", "ESPO, 2 pairs", "TraceRL", "CJ-GRPO", "JustGRPO")
# A page and what it says (# is a figure, … what stands between); the table in data/study, the heading above its row and
# the row; which of the row's numbers the page repeats.
FIGURES = [
    ("README.md", "| nothing more | # | # |", *WORTH, "start", range(2)),
    ("README.md", "drawn at random | # | # |", *WORTH, "SFT on random grids", range(2)),
    ("README.md", "judged-decisions) | # | # |", *WORTH, "judged decisions", range(2)),
    ("README.md", "guarded-decodes) | # | # |", *WORTH, "imitation of own guarded decodes", range(2)),
    ("README.md", "can be learned | # | # |", *WORTH, LEAST, range(2)),
    ("README.md", "every board is right, in # passes", *WORTH, "start", [2]),
    ("README.md", "worth # points over random", SEVERAL, "## Diff", "judged decisions - SFT on random grids", [10]),
    ("README.md", "from 0 to # %", "../../docs/several_answers.md", "## Few", "4×4 | 0 | judged decisions", [1]),
    ("README.md", "on what follows is worth # points", *FEW, "sft_definite", [1]),
    ("docs/several_answers.md", "completes # % at four cells and # % at nine", *FREE, LEAST, (2, 4)),
    ("docs/several_answers.md", "take four cells a pass to # %", *FREE, "judged decisions", [2]),
    ("docs/several_answers.md", "its ceiling is # %", *FREE, "ceiling: the marginals of random grids", [2]),
    ("docs/results.md", "alone solves # % of held-out", *FEW, "sft_definite", [0]),
    ("docs/results.md", f"| sft_definite - sft | {LEAD}", *FEW, "sft_definite", range(1, 6)),
    ("docs/results.md", f"objective - sft | … | … | {LEAD}", *FEW, "objective |", range(19, 24)),
    ("docs/results.md", "as SFT in # forward", *PASSES, "sft_definite", [0]),
    ("docs/results.md", "| SFT | # | # | # | # | 97", *TOKENS, "sft", range(4)),
    ("docs/results.md", f"67.8 | {LEAD}", *TRACES, "sft_definite - sft", range(5)),
    *(("docs/sudoku9x9.md", f"| {b} blanks {FIVE} # | # |", *GRIDS, b, range(7)) for b in ("≤ 39", "40–49", "50–59")),
    *(("docs/referee.md", f"to data: … | {m} | # | # | # | # |", *BIAS, m, (1, 4, 7, 3)) for m in METHODS),
    *(("docs/referee.md", f"to data: … | {m} |{' … |' * 4} # | # | # | # |", *MORE, m, (1, 4, 7, 3)) for m in METHODS),
    ("docs/referee.md", "in # % and four in #.", *BOARDS, "start", (0, 2)),
    ("docs/referee.md", "decisions go from 14 to # %", *BOARDS, "judged decisions", [2]),
]


def numbers_in(form: str, path: Path, heading: str = "") -> list[str]:
    """The numbers of the first place below a heading that has the form, without signs of bold and half intervals."""
    text = re.sub(r"\*\*|`|± [\d.]+", "", path.read_text(encoding="utf-8")).replace("−", "-")
    said = re.search(form, re.split(heading, text, maxsplit=1, flags=re.S)[-1] if heading else text, re.M | re.S)
    assert said, f"{path} says nothing like {form}"
    return [number for part in said.groups() for number in re.findall(NUMBER, part)]


@pytest.mark.parametrize(("page", "told", "table", "heading", "row", "places"), FIGURES)
def test_a_page_repeats_what_the_table_says(page, told, table, heading, row, places) -> None:
    form = re.escape(told).replace(r"\#", f"({NUMBER})").replace("…", ".*?").replace(r"\ ", r"\s+")
    kept = numbers_in(rf"^\| {re.escape(row)}([^\n]*)", ROOT / "data" / "study" / table, heading)
    for ours, theirs in zip(numbers_in(form, ROOT / page), (kept[place] for place in places), strict=True):
        theirs = theirs if ours[0] in "+-" else theirs.lstrip("+-")
        rounded = sum(0.5 / 10 ** len(each.partition(".")[2]) for each in (ours, theirs))
        assert abs(float(ours.replace(",", "")) - float(theirs.replace(",", ""))) <= rounded + 1e-9, (ours, theirs)
