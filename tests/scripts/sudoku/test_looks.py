"""`scripts/sudoku/looks.py`: what counts by hand, and a handful of puzzles."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from torch import nn

from dllm_rl import Decoding
from scripts.sudoku.looks import Looks, decoded
from tests.helpers.warm_process import finished

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "sudoku" / "looks.py"


def test_the_first_consistent_look_counts_and_ends_the_looking() -> None:
    consistent = np.array([[True, False, False], [True, False, False], [False, True, False]])
    looks = Looks(consistent, np.array([[10, 11, 12], [20, 21, 22], [30, 31, 32]]))
    assert looks.solved.tolist() == [True, True, False]
    assert looks.passes_used.tolist() == [10, 11 + 21 + 31, 12 + 22 + 32]
    assert looks.first(2).solved.tolist() == [True, False, False]
    assert looks.first(2).passes_used.tolist() == [10, 11 + 21, 12 + 22]


@pytest.mark.slow
def test_more_looks_solve_no_fewer_puzzles(tmp_path: Path) -> None:
    words = ["--model", "llada-sudoku6x6", "--drawn", "0", "--size", "6", "--puzzles", "12", "--tokens_per_step", "4"]
    finished(
        SCRIPT,
        [*words, "--threshold", "1", "--symmetries", "digits", "all", "--looks", "1", "3", "--output_dir", tmp_path],
        timeout=300,
        cwd=ROOT,
    )
    table = pd.read_csv(tmp_path / "table.csv")
    assert table["decoding"].tolist() == ["4 tokens a step"] * 4 + ["margin of 1"] * 4
    assert table["symmetries"].tolist() == ["digits", "digits", "all", "all"] * 2
    assert table["looks"].tolist() == [1, 3] * 4
    assert (table["solved"].diff()[1::2] >= 0).all() and (table["passes"].diff()[1::2] >= 0).all()
    for first in (0, 4):  # the first look is the board as it is
        assert table["solved"][first] == table["solved"][first + 2]


def test_a_board_is_looked_at_until_an_answer_is_consistent(monkeypatch: pytest.MonkeyPatch) -> None:
    rights = np.array([[True, False, False], [False, False, True], [False, True, False]])
    asked: list[list[int]] = []

    def answered(model: object, tokenizer: object, how: object, boards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.append(boards[:, 0].tolist())
        return rights.reshape(-1)[boards[:, 0]], boards[:, 0] + 10

    monkeypatch.setattr("scripts.sudoku.looks.answered", answered)
    images = np.arange(9, dtype=np.uint8).reshape(3, 3, 1)
    looks = decoded(nn.Identity(), None, Decoding("margin"), images)
    assert asked == [[0, 1, 2], [4, 5], [7]]
    assert looks.consistent.tolist() == [[True, False, False], [False, False, True], [False, True, False]]
    assert looks.passes.tolist() == [[10, 11, 12], [0, 14, 15], [0, 17, 0]]
