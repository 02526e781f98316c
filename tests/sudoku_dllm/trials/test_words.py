"""The words for estimates, passes and tables, by hand."""

import math

import pytest

from sudoku_dllm.trials.page import fill
from sudoku_dllm.trials.statistics import Estimate, PassesNeeded
from sudoku_dllm.trials.words import fewest, lead, markdown_table, passes, percent, points, share, text_table

BOTH = Estimate(0.1, (0.05, 0.15), (0.02, 0.18), (0.1, 0.1))
HELD = Estimate(0.1, (0.05, 0.15), (-0.02, 0.22), (0.1, 0.1))
ALONE = Estimate(-0.0004, (-0.0504, 0.0496), None, (-0.0004,))


def test_a_lead_is_bold_where_neither_interval_holds_zero() -> None:
    assert lead(BOTH) == "**+10.0** [+5.0, +15.0] [+2.0, +18.0]"
    assert lead(HELD) == "+10.0 [+5.0, +15.0] [-2.0, +22.0]"
    assert lead(ALONE) == "-0.0 [-5.0, +5.0]"


def test_shares_and_differences_have_half_of_their_intervals() -> None:
    assert (share(BOTH), points(BOTH), points(ALONE)) == ("10.0 ± 5.0 / ± 8.0", "+10.0 ± 5.0 / ± 8.0", "-0.0 ± 5.0")
    assert (percent(0.625), percent(math.nan)) == ("62.5", "–")


def test_passes_have_their_intervals_and_a_bound() -> None:
    assert passes(None) == "–" and passes(PassesNeeded(math.inf, (math.inf, math.inf), None, 2.0)) == "not reached"
    assert passes(PassesNeeded(math.inf, (1, math.inf), None, 2.0)) == "not reached [1.0, ∞] –"
    assert passes(PassesNeeded(2.0, (2.0, 2.5), (1.5, 2.5), 2.0)) == "≤ 2.0 [2.0, 2.5] [1.5, 2.5]"
    assert fewest(PassesNeeded(4.0, (3.0, math.inf), None, 2.0)) == "4.0"


def test_tables() -> None:
    assert markdown_table(["", "a"], [["x", "1"], ["y", "2"]]) == "|  | a |\n| --- | --- |\n| x | 1 |\n| y | 2 |\n"
    assert text_table([3, 4, 2], [["", "a", "b"], ["x", "10"]]) == ["      a b", "x    10"]


def test_a_page_has_a_marker_for_each_table(tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# {name}\n\n{table}\n\n{run[updates]:,} updates\n")
    filled = {"name": "A {x}", "table": "| 1 |\n", "run": {"updates": 1234}}
    assert fill(page, filled) == "# A {x}\n\n| 1 |\n\n1,234 updates\n"
    for wrong in ({"name": "A", "run": {}}, {**filled, "more": ""}):
        with pytest.raises(ValueError, match=r"page.md .* only one has \['(table|more)'\]"):
            fill(page, wrong)
