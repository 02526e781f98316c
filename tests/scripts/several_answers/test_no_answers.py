"""The script that asks how far a check alone takes a model, with tiny counts, and what it shows to its starts."""

from pathlib import Path

import numpy as np
import pytest

from scripts.several_answers.no_answers import (
    CONTROLS,
    TITLES,
    Arguments,
    imaged,
    problems_of,
    renamed,
    setting_of,
    shown,
    table,
)
from sudoku_dllm.trials import Records
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


def test_images_are_grids_with_boards_of_as_many_clues() -> None:
    """Of 3 grids, all 288 of 4×4 in the end: valid, each agreeing with its board, and none on a held-out board."""
    setting = setting_of(Arguments())
    boards, grids = shown(setting, 3, seed=1)
    more_boards, more = imaged(boards, grids, seed=2)
    assert len(more) >= 5000 and completable(more).all() and (more[:3] == grids).all()
    assert ((more_boards == 0) | (more_boards == more)).all()
    assert ((more_boards > 0).sum(1) == np.resize((boards > 0).sum(1), len(more))).all()
    held_out = setting.held_out(more_boards)
    assert held_out.any() and len(np.unique(more, axis=0)) > 100
    assert len(problems_of(setting, "symmetries", boards, grids, seed=2)) == int((~held_out).sum())


@pytest.mark.slow
def test_every_start_is_trained_judged_and_kept(tmp_path: Path) -> None:
    arguments = ["--grids", "0", "4", "--updates", "3", "--output_dir", tmp_path]
    done = run_script(SCRIPT, arguments, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split(" | ")[1:3] for line in table(Records(tmp_path)).splitlines()[2:]]
    assert rows == [
        *(["0", TITLES[name]] for name in ("start", "judged")),
        *(["4", TITLES[name]] for name in ("start", "judged", *CONTROLS)),
    ]
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    assert run_script(SCRIPT, arguments, timeout=300).returncode == 0
    assert written == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}


def test_counts_without_a_meaning_are_named(tmp_path: Path) -> None:
    done = run_script(SCRIPT, ["--size", "9", "--output_dir", tmp_path], timeout=300)
    assert done.returncode == 2 and "size=9 must be one of [4, 6]" in done.stderr
