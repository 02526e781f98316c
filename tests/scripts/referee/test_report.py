"""The table of a comparison against one worked out by hand."""

from pathlib import Path

import numpy as np
import pytest

from scripts.referee.compare import BRANCHED, BoardsArguments
from scripts.referee.report import Found, overview, pages, table, tried
from sudoku_dllm.trials.rates import chosen_rates
from sudoku_dllm.trials.record import Records, write_job
from tests.helpers.refusals import refused

STUDIES = Path(__file__).parents[3] / "data" / "study" / "referee"
SETTINGS = {"tokens_per_step": 2, "cpu_seconds": 30.0, "reward": "passes", "divergence": False}
SHARES = {"start": (5, 2), "spg": (6, 3), "judged": (8, 6), "wd1": (7, 5)}
"""How many of ten problems are right at one and at two positions a pass."""

SPENT = {"updates": 20, "cpu_seconds": 30.0}


def write(folder: Path, arm: str, seed: int, one: int, two: int) -> None:
    """The result of a training."""
    right = {f"right/{k}": np.arange(10) < count for k, count in {1: one, 2: two}.items()}
    spent = {name: value * (arm != "start") for name, value in SPENT.items()}
    write_job(folder / arm / f"seed{seed}", {"arm": arm, "seed": seed, "settings": SETTINGS, **spent}, right)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two seeds, the second with one more right at one position."""
    for arm, (one, two) in SHARES.items():
        for seed in (0, 1):
            write(tmp_path / "boards", arm, seed, one + seed, two)
    return tmp_path / "boards"


def test_the_table_by_hand(run) -> None:
    head, _, *lines = table(Records(run)).splitlines()
    assert head == "|  | right % at 1 | right % at 2 | at 2, minus start | updates |"
    cells = {line.split(" | ")[0].strip("| "): [cell.strip(" |") for cell in line.split(" | ")[1:]] for line in lines}
    assert list(cells) == ["start", "judged decisions", "wd1", "SPG"]
    # At two positions 6 of 10 against 2: four problems are gained, in both seeds alike.
    half = 1.96 * np.std([0, 0, 1, 1, 1, 1, 0, 0, 0, 0], ddof=1) / np.sqrt(10)
    ends = f"[{100 * (0.4 - half):+.1f}, {100 * (0.4 + half):+.1f}]"
    assert cells["judged decisions"] == ["85.0", "60.0", f"**+40.0** {ends} [+40.0, +40.0]", "20"]
    assert cells["SPG"][:2] == ["65.0", "30.0"] and cells["SPG"][2].startswith("+10.0 [")
    assert cells["start"] == ["55.0", "20.0", "", ""]
    title = "## boards\n\n30 CPU s, 2 a pass, passes before an error are rewarded:\n\n"
    assert pages([run]) == title + table(Records(run))


def test_the_overview_by_hand(run, tmp_path) -> None:
    for arm, drawn in {"start": 1, "spg": 9}.items():
        for seed in (0, 1):
            shares = {"right/1": np.arange(10) < 5, "right/2": np.arange(10) < 5, "sampled/2": np.arange(10) < drawn}
            one = {"arm": arm, "seed": seed, "settings": SETTINGS, **SPENT}
            write_job(tmp_path / "sampled" / arm / f"seed{seed}", one, shares)
    assert overview([run, tmp_path / "sampled"]).splitlines() == [
        "|  | boards | sampled |",
        "| --- | --- | --- |",
        "| start | 20.0 | 50.0 / 10.0 |",
        "| wd1 | **+30.0** |  |",
        "| SPG | +10.0 | +0.0 / **+80.0** |",
        "| judged decisions | **+40.0** |  |",
    ]


def test_what_cannot_be_told(run, tmp_path) -> None:
    write(run, "espo", 0, 5, 5)
    refused("no result of espo with seed 1", lambda: Found(Records(run)))
    refused("holds no results", lambda: table(Records(tmp_path / "none")), FileNotFoundError)


def test_the_rates_that_were_tried(tmp_path) -> None:
    for rate, (one, two) in {"0.001": (9, 4), "1e-4": (7, 5)}.items():
        right = {f"right/{k}": np.arange(10) < count for k, count in {1: one, 2: two}.items()}
        for arm in ("start", "spg"):
            settings = {**SETTINGS, "rates": [f"spg={rate}"]}
            write_job(tmp_path / rate / arm / "seed7", {"arm": arm, "seed": 7, "settings": settings}, right)
    assert tried(Records(tmp_path)).splitlines()[0] == "|  | 1e-4 | 1e-3 |"
    assert tried(Records(tmp_path)).splitlines()[2:] == ["| SPG | 70.0 / 50.0 | 90.0 / 40.0 |"]
    assert pages([], [tmp_path]).endswith(f"by rate:\n\n{tried(Records(tmp_path))}")


def test_boards_are_run_as_their_table_was() -> None:
    rates = BoardsArguments.RATES
    results = [one for one in Records(STUDIES / "boards").results().values() if one["arm"] != "start"]
    assert {*(one["arm"] for one in results), *BRANCHED} == set(rates)
    for one in results:
        assert chosen_rates(rates, one["settings"]["rates"])[one["arm"]] == rates[one["arm"]]
    assert {one["settings"]["tokens_per_step"] for one in results} == {BoardsArguments.tokens_per_step}
