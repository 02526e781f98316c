"""`scripts/sudoku/taking_back.py` with a handful of updates and puzzles."""

from pathlib import Path

import pandas as pd
import pytest

from tests.helpers.warm_process import run_script

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "sudoku" / "taking_back.py"


def test_a_row_for_each_way_of_decoding(tmp_path: Path) -> None:
    few = (ROOT / "data" / "sudoku6x6_train.jsonl").read_text().splitlines(keepends=True)[:16]
    (tmp_path / "train.jsonl").write_text("".join(few))
    words = [
        "--data",
        tmp_path / "train.jsonl",
        "--images",
        "1",
        "--cpu_seconds",
        "0.3",
        "--batch_size",
        "4",
        "--output_dir",
        tmp_path,
    ]
    words += ["--validation_puzzles", "4", "--test_puzzles", "6", "--tokens_per_step", "2", "4", "--max_passes", "16"]
    words += ["--remask_threshold", "0.5", "1", "--edit_threshold", "0.5"]
    arms = ["sft", "own_states", "self_correction", "objective"]
    done = run_script(SCRIPT, [*words, "--arms", *arms], timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    table = pd.read_csv(tmp_path / "table.csv")
    assert table["arm"].tolist() == [arm for arm in arms for _ in range(6)]
    assert table["tokens_per_step"].tolist() == [2, 2, 2, 4, 4, 4] * 4
    assert table["remask_threshold"].notna().tolist() == [False, True, False] * 8
    assert table["edit_threshold"].notna().tolist() == [False, False, True] * 8
    plain = table["repaired"].isna()
    assert plain.tolist()[::3] == [True] * 8 and table["solved"].between(0, 100).all() and (table["passes"] <= 16).all()
    assert (tmp_path / "objective-0" / "model" / "model.safetensors").exists()


def test_drawn_puzzles(tmp_path: Path) -> None:
    """From the generator, here 6×6 ones; no grid that is judged is trained on."""
    words = ["--drawn", "20", "--size", "6", "--clues", "14", "20", "--judged_clues", "12", "16"]
    words += ["--arms", "base", "corrupted"]
    words += ["--validation_puzzles", "2", "--test_puzzles", "3", "--tokens_per_step", "4", "--remask_threshold", "0.5"]
    words += ["--edit_threshold", "0.5", "--cpu_seconds", "0.2", "--batch_size", "4", "--output_dir", tmp_path]
    done = run_script(SCRIPT, words, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(pd.read_csv(tmp_path / "table.csv")) == 6 and "drawn, [12, 16] clues: 3 puzzles" in done.stdout


def test_unknown_arms_are_refused(tmp_path: Path) -> None:
    done = run_script(SCRIPT, ["--arms", "rl", "--output_dir", tmp_path / "new"], timeout=300, cwd=ROOT)
    known = "base, sft, corrupted, own_states, self_correction, objective"
    assert done.returncode == 2 and f"--arms ['rl'] are unknown; choose among {known}" in done.stderr
    assert not (tmp_path / "new").exists()
