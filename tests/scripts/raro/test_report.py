"""What the report of a demonstration reads out of several runs."""

from pathlib import Path

import numpy as np
import pytest

from scripts.raro.report import plot, settings_of, supervised, supervised_table, titled
from sudoku_dllm.trials import Records
from sudoku_dllm.trials.record import write_job

SETTINGS = {
    "expert_answers": 64, "cpu_seconds": 150.0, "max_steps": None, "reasoning": True, "critic_reasoning": True,
    "seeds": [0], "arms": [],
}  # fmt: skip


def write(folder: Path, arm: str, seed: int, right: int, **changes: object) -> None:
    """A result of which so many of ten questions are answered rightly."""
    curve = [{"step": step, "critic/accuracy_distinct": 0.5, "verified/right": 0.1} for step in (1, 2)]
    result = {"arm": arm, "seed": seed, "settings": {**SETTINGS, **changes}, "curve": curve}
    solved = np.arange(10) < right
    write_job(folder / arm / f"seed{seed}", result, {"solved": solved.astype(float)})


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    for seed in (0, 1, 2):
        write(tmp_path / "64", "more", seed, 2 + seed)
        write(tmp_path / "64", "raro", seed, 4)
        write(tmp_path / "silent", "more", seed, 9, reasoning=False)
        write(tmp_path / "256", "more", seed, 5, expert_answers=256)
    for seed in (0, 1):
        write(tmp_path / "shorter" / "64_15", "more", seed, 6 + seed, cpu_seconds=15.0)
    return [tmp_path / name for name in ("64", "silent", "256")]


def test_supervised_training_for_other_times_stands_beside_the_same_seeds_of_the_run_like_it(runs: list[Path]) -> None:
    found = supervised(runs, runs[0].parent / "shorter")
    assert found == {64: {15.0: [60.0, 70.0], 150.0: [20.0, pytest.approx(30.0)]}}
    assert supervised_table(found).splitlines() == [
        "| expert answers | 15 s | 150 s |",
        "| --- | --- | --- |",
        "| 64 | 65.0 | 25.0 |",
    ]


def test_titles_say_what_differs(runs: list[Path]) -> None:
    titles = [titled(settings_of(Records(run))) for run in runs]
    assert titles == [
        "64 expert answers, 150 CPU s",
        "64 expert answers, 150 CPU s, no reasoning",
        "256 expert answers, 150 CPU s",
    ]
    quiet = titled({**SETTINGS, "critic_reasoning": False, "max_steps": 3})
    assert quiet == "64 expert answers, 3 updates, a critic without reasoning"


def test_the_picture_has_a_point_for_each_number_of_answers(runs: list[Path], tmp_path: Path) -> None:
    plot(runs, tmp_path / "picture.png", supervised(runs, tmp_path / "shorter"))
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no results"):
        settings_of(Records(tmp_path))
