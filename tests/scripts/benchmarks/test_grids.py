"""`scripts/benchmarks/grids.py`: which puzzles count, into which bin they fall, and the tables."""

from pathlib import Path

import numpy as np
import pandas as pd

from scripts.benchmarks.grids import BLANKS, CLUES, DRAWN, bins_of, drawn_sets, file_sets, tiers_of
from scripts.shared.small_tokenizer import build_small_tokenizer
from scripts.shared.tiny_llada import tiny_llada
from sudoku_env.board import to_string
from sudoku_env.generator import generate
from sudoku_env.puzzles import read_puzzles
from sudoku_env.rating import rate
from sudoku_env.solver import solve_batch
from sudoku_env.split import split_of
from tests.scripts.helpers.in_process import run_here

FROZEN = Path(__file__).parents[3] / "data" / "puzzles" / "sudoku9x9_test.csv"


def test_bins_meet_where_they_should() -> None:
    values = np.array([0, 39, 40, 49, 50, 59, 60, 69, 70])
    short = [name.split(" b")[0] for name in bins_of(values, BLANKS)]
    assert short == ["≤ 39", "≤ 39", "40–49", "40–49", "50–59", "50–59", "60–69", "60–69", ""]
    assert bins_of(np.array([17, 29, 30, 39, 40]), CLUES) == ["< 30 clues"] * 2 + ["30–39 clues"] * 2 + ["≥ 40 clues"]
    blanks = [{bins_of(np.array([81 - count]), BLANKS)[0] for count in clues} for clues in DRAWN.values()]
    assert blanks == [{name} for name in list(BLANKS)[:3]]


def test_the_tier_is_that_of_the_hardest_rule() -> None:
    rules = ("hidden_single", "claiming", "naked_pair", "backbone")
    boards = np.concatenate([generate(1, size=9, rule=rule, exact=True, seed=0).boards for rule in rules])
    assert [rate(board).rule for board in boards] == list(rules)
    assert tiers_of(boards).tolist() == ["singles", "locked", "pairs", "beyond"]


def test_drawn_puzzles_are_of_the_test_split_and_grow_in_number() -> None:
    few, more = drawn_sets(2, 0), drawn_sets(3, 0)
    for (name, boards), (low, high) in zip(more.items(), DRAWN.values(), strict=True):
        solutions, counts = solve_batch(boards, limit=2)
        assert len(boards) == 3 and (counts == 1).all()
        assert {split_of(solution) for solution in solutions} == {"test"}
        assert all(low <= clues <= high for clues in (boards > 0).sum(1))
        assert len(few[name]) == 2


def test_puzzles_of_a_file_count_if_unique_and_of_the_test_split(tmp_path) -> None:
    drawn = generate(30, size=9, clues=30, seed=5)
    several = drawn.boards[0].copy()
    several[np.flatnonzero(several)[:20]] = 0
    path = tmp_path / "some.txt"
    path.write_text("\n".join(to_string(board) for board in (several, *drawn.boards)))
    expected = [to_string(b) for b, s in zip(drawn.boards, drawn.solutions, strict=True) if split_of(s) == "test"]
    assert [to_string(board) for board in file_sets(str(path), 99)["some"]] == expected
    assert [to_string(board) for board in file_sets(str(path), 2)["some"]] == expected[:2]


def test_the_frozen_set_comes_tier_by_tier() -> None:
    sets = file_sets(str(FROZEN), 2)
    assert [name.split(", ")[1] for name in sets][:3] == ["singles", "locked", "pairs"]
    first = read_puzzles(FROZEN, tier="locked").boards[:2]
    np.testing.assert_array_equal(sets["sudoku9x9_test, locked"], first)


def test_tables_of_a_model(tmp_path, monkeypatch, capsys) -> None:
    tokenizer = build_small_tokenizer(9, 1, "bare")
    sizes = {"d_model": 8, "n_layers": 1, "mlp_hidden_size": 8, "max_sequence_length": 128}
    tiny_llada(len(tokenizer), tokenizer.mask_token_id, 0, **sizes).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    options = {"model": tmp_path / "model", "output_dir": tmp_path / "out", "drawn": 2, "threshold": 0.5}
    run_here(monkeypatch, "benchmarks/grids.py", **options)
    outcomes = pd.read_csv(tmp_path / "out" / "outcomes.csv")
    assert len(outcomes) == 2 * 2 * len(DRAWN)
    assert set(outcomes["decoding"]) == {"one token a step", "threshold 0.5"}
    assert not outcomes["solved"].any() and outcomes["passes"].isna().all()
    assert outcomes["before_error"].between(0, 1, inclusive="left").all()
    printed = capsys.readouterr().out
    assert all(name in printed for name in (*DRAWN, *list(BLANKS)[:3], "drawn, 22–31 clues"))
