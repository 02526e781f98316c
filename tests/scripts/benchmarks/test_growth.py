"""`scripts/benchmarks/growth.py`: exponents by hand, and a short run as a user makes it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from dllm_rl.sudoku import PuzzleBatch
from scripts.benchmarks.growth import CURVES, slope, with_masks
from tests.dllm_rl.helpers.tiny_training import puzzles, tokenizer
from tests.helpers.warm_process import run_script

ROOT = Path(__file__).parents[3]


def test_exponents_by_hand() -> None:
    xs = [1, 2, 4, 8, 16, 32]
    assert slope(xs, [3 * x**1.7 for x in xs]) == pytest.approx(1.7)
    assert slope(xs, [max(5.0, x) for x in xs]) == pytest.approx(1)  # what a call costs at least does not count
    assert slope([16, 36, 81], [256, 1296, 6561]) == pytest.approx(2)
    assert slope([1, 10], [1, 1000]) == pytest.approx(3)


def test_masks_are_left_at_so_many_positions() -> None:
    problems = PuzzleBatch.collate(puzzles(3), pad_id=tokenizer().pad_token_id, tail_id=tokenizer().eos_token_id)
    fewer = with_masks(problems, 5)
    masked = fewer.responses == fewer.mask_id
    assert masked.sum(1).tolist() == [5, 5, 5] and not (masked & (problems.responses != problems.mask_id)).any()
    changed = fewer.responses != problems.responses
    assert torch.equal(fewer.responses[changed], problems.answers[changed]) and changed.any()
    with pytest.raises(ValueError, match="fewer than 99"):
        with_masks(problems, 99)


@pytest.mark.slow
def test_a_table_a_picture_and_a_page(tmp_path: Path) -> None:
    words = ["--values", "2", "--rounds", "1", "--puzzles", "1", "--output_dir", tmp_path / "run"]
    done = run_script(
        ROOT / "scripts" / "benchmarks" / "growth.py", [*words, "--page", tmp_path / "growth.md"], timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    table = pd.read_csv(tmp_path / "run" / "growth.csv")
    assert list(dict.fromkeys(table["curve"])) == list(CURVES) and (table["seconds"] > 0).all()
    assert np.array_equal(table["mebibytes"].isna(), table["curve"] == "boards")
    assert (tmp_path / "run" / "growth.png").exists() and (tmp_path / "images" / "growth.png").exists()
    page = (tmp_path / "growth.md").read_text()
    assert all(curve.label in page for curve in CURVES.values()) and page.count("| update |") == len(CURVES) - 1


@pytest.mark.slow
def test_unknown_curves_are_refused(tmp_path: Path) -> None:
    words = ["--curves", "weather", "--output_dir", tmp_path / "new"]
    done = run_script(ROOT / "scripts" / "benchmarks" / "growth.py", words, timeout=300)
    assert done.returncode == 2 and "--curves ['weather'] are unknown; choose among boards" in done.stderr
