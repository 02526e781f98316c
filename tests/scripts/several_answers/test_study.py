"""The page on several right answers is what its kept results say."""

from pathlib import Path

import pytest

from scripts.several_answers.outcome_tables import interval, outcomes_in, tables
from sudoku_dllm.several.report import CEILINGS
from sudoku_dllm.trials.statistics import Estimate
from tests.helpers.warm_process import run_script

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "several_answers.md"
STUDY = ROOT / "data" / "study" / "several_answers"


def test_the_page_holds_the_tables_of_its_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for title, table in tables(outcomes_in(STUDY)).items():
        assert f"## {title}\n\n{table}" in page


def test_ceilings_are_those_of_their_page() -> None:
    page = (ROOT / "docs" / "ceilings.md").read_text(encoding="utf-8")
    table = page[page.index("## 6×6, 1–8 clues") :].split("\n## ")[0]
    for order, name in (("margin", "free"), ("margin, no peers", "no peers")):
        (row,) = (line for line in table.splitlines() if line.startswith(f"| {order} | most probable |"))
        shown = [float(cell.split()[0]) for cell in row.split("|")[3:-1]]
        assert shown == [*CEILINGS[name].values()]  # type: ignore[union-attr,attr-defined]


def test_intervals_by_hand() -> None:
    both = Estimate(0.1, (0.05, 0.15), (0.02, 0.18), (0.1, 0.1))
    assert interval(both) == "**+10.0** [+5.0, +15.0] [+2.0, +18.0]"
    assert interval(Estimate(0.1, (0.05, 0.15), None, (0.1,))) == "+10.0 [+5.0, +15.0]"
    assert interval(Estimate(0.1, (0.05, 0.15), (-0.02, 0.22), (0.1, 0.1))) == "+10.0 [+5.0, +15.0] [-2.0, +22.0]"


@pytest.mark.slow
def test_the_page_is_made_again_byte_by_byte(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "several_answers" / "study.py"
    done = run_script(script, ["--study", STUDY, "--page", tmp_path / "docs" / "page.md"], timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "docs" / "page.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "images" / "several_answers.png").stat().st_size


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "several_answers" / "study.py"
    done = run_script(script, ["--study", tmp_path, "--page", tmp_path / "page.md"], timeout=300)
    assert done.returncode == 2 and "has no results; see --help" in done.stderr and not (tmp_path / "page.md").exists()
