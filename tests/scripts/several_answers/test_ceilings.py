"""`scripts/several_answers/ceilings.py`: figures by hand, tables, and a short run as a user makes it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from scripts.several_answers.report import percent, table_of
from scripts.several_answers.rows import CELLS, drawn_boards, drawn_share, first_pass
from sudoku_env.board import is_valid
from tests.helpers.drawn import near_share
from tests.helpers.warm_process import finished

SCRIPT = Path(__file__).parents[3] / "scripts" / "several_answers" / "ceilings.py"


def test_two_cells_of_an_empty_board_clash_as_often_as_by_hand() -> None:
    """Two of the 81 cells are peers in 20 of 80 cases and then have the same digit in 1 of 9; else they go together."""
    valid = first_pass(9, 2, 500, np.random.default_rng(0))
    assert near_share(valid.sum(), 500, 1 - 20 / 80 / 9)


def test_boards_have_up_to_so_many_clues_and_a_seed_gives_them_twice() -> None:
    boards = drawn_boards(60, (1, 3), seed=4)
    assert {*(boards > 0).sum(1).tolist()} == {1, 2, 3} and all(is_valid(board) for board in boards)
    assert np.array_equal(boards, drawn_boards(60, (1, 3), seed=4)) and len(drawn_boards(0, (1, 3), seed=4)) == 0


def test_half_of_the_interval_by_hand() -> None:
    """Wilson's at 95 %: of four draws with none, from 0 to z² / (4 + z²), z = 1.96."""
    assert drawn_share(np.zeros(4, dtype=bool))["half_width"] == pytest.approx(1.96**2 / (4 + 1.96**2) / 2)
    assert drawn_share(np.arange(10_000) % 2 == 0)["half_width"] == pytest.approx(1.96 / 2 / 100, rel=1e-3)


def test_tables_by_hand() -> None:
    rows = [
        {"order": "random", "tokens": "sampled", "cells": 1, "valid": 1.0},
        {"order": "random", "tokens": "sampled", "cells": 16, "valid": 288 / 4**16},
        {"order": "margin", "tokens": "sampled", "cells": 1, "valid": 0.25, "half_width": 0.0304},
        {"order": "margin", "tokens": "sampled", "cells": 16, "valid": 0.0, "half_width": 0.0},
    ]
    assert [percent(row) for row in rows] == ["100.0", "< 0.1", "25.0 ± 3.0", "0.0 ± 0.0"]
    assert table_of(rows, "cells", lambda cells: f"{cells} a pass").splitlines() == [
        "| order | tokens | 1 a pass | 16 a pass |",
        "| --- | --- | --- | --- |",
        "| random | sampled | 100.0 | < 0.1 |",
        "| margin | sampled | 25.0 ± 3.0 | 0.0 ± 0.0 |",
    ]


@pytest.mark.slow
def test_a_table_a_picture_and_a_page(tmp_path: Path) -> None:
    words = ["--orders", "random", "margin, ties to the left", "--decodes", "3", "--output_dir", tmp_path]
    finished(SCRIPT, [*words, "--page", tmp_path / "docs" / "ceilings.md"], timeout=600)
    table = pd.read_csv(tmp_path / "ceilings.csv")
    assert {*table["size"]} == {*CELLS} and table["valid"].between(0, 1 + 1e-12).all()
    assert table.loc[(table["cells"] == 1), "valid"].to_numpy() == pytest.approx(1)
    assert (tmp_path / "ceilings.png").stat().st_size and (tmp_path / "docs" / "images" / "ceilings.png").stat().st_size
    page = (tmp_path / "docs" / "ceilings.md").read_text(encoding="utf-8")
    assert "## 4×4, the empty board" in page and "## 6×6, 1–8 clues" in page and page.count("| random | sampled |") == 4
