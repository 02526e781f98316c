"""The script that asks how far a check alone takes a model, with tiny counts, and what it shows to its starts."""

from pathlib import Path

import numpy as np
import pytest

from scripts.several_answers.no_answers import Arguments, renamed, setting_of, shown
from sudoku_env.solver import completable
from tests.helpers.warm_process import run_script

SCRIPT = Path(__file__).parents[3] / "scripts" / "several_answers" / "no_answers.py"


def test_starts_are_shown_grids_or_digits_without_a_rule() -> None:
    setting = setting_of(Arguments())
    boards, grids = shown(setting, 16, seed=0)
    assert len(boards) == 16 and completable(grids).all() and (grids > 0).all()
    blank, digits = shown(setting, 0, seed=0)
    assert ((blank == 0) | (blank == digits)).all() and not completable(digits).all()
    assert {*np.unique(digits)} == {1, 2, 3, 4}


def test_renamed_grids_are_all_of_their_kind_once() -> None:
    """24 names for the four digits: valid grids, distinct, each with its own board."""
    setting = setting_of(Arguments())
    boards, grids = shown(setting, 3, seed=1)
    more_boards, more = renamed(boards, grids)
    assert len(more) == 24 * 3 and completable(more).all()
    assert len(np.unique(more[::3], axis=0)) == 24
    assert ((more_boards == 0) | (more_boards == more)).all()
    assert ((more_boards > 0).sum(1) == np.tile((boards > 0).sum(1), 24)).all()


@pytest.mark.slow
def test_every_start_is_trained_and_judged(tmp_path: Path) -> None:
    done = run_script(SCRIPT, ["--grids", "0", "4", "--updates", "3", "--output_dir", tmp_path], timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split(" | ")[:3] for line in (tmp_path / "table.md").read_text().splitlines()[2:8]]
    controls = ["SFT on the same grids", "SFT on them with digits renamed"]
    assert rows == [
        *(["| 0", "0", name] for name in ("start", "judged decisions")),
        *(["| 4", "0", name] for name in ("start", "judged decisions", *controls)),
    ]


def test_counts_without_a_meaning_are_named(tmp_path: Path) -> None:
    done = run_script(SCRIPT, ["--size", "9", "--output_dir", tmp_path], timeout=300)
    assert done.returncode == 2 and "size=9 must be one of [4, 6]" in done.stderr
