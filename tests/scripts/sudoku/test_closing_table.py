import pytest

from scripts.sudoku.closing_table import closing_table
from tests.dllm_rl.helpers.evaluations import FIRST, SECOND


def test_table_by_hand() -> None:
    table = closing_table({"base": {"margin": FIRST, "policy": SECOND}, "rl": {"margin": SECOND, "policy": FIRST}}, 0.9)
    assert list(table.index) == ["base", "rl"]
    assert table.loc["base"].to_dict() == pytest.approx(
        {
            "solved margin %": 75.0,
            "solved policy %": 25.0,
            "greedy_forced %": 80.0,
            "(random floor)": 90.0,
            "steps before error": 7.5,
        }
    )
    assert table.loc["rl", "greedy_forced %"] == pytest.approx(50.0)
    assert table.loc["rl", "steps before error"] == pytest.approx(4.0)
