"""The least completion in another order of cells: the table by hand."""

from pathlib import Path

import numpy as np

from scripts.several_answers.outcome_tables import STUDIED
from scripts.several_answers.reading_order import LABEL, SHUFFLED, table
from sudoku_dllm.trials import Records, write_job


def test_the_table_compares_seeds_that_both_have(tmp_path: Path) -> None:
    for arm, seed, solved in ((LABEL, 0, [1, 0]), (LABEL, 1, [0, 0]), (SHUFFLED, 0, [1, 1])):
        outcomes = {f"{k}/free/valid": np.array(solved, bool) for k in STUDIED["eval_tokens"]}
        write_job(tmp_path / arm / f"seed{seed}", {"arm": arm}, outcomes)
    least, other, minus = (line.split(" | ") for line in table(Records(tmp_path)).splitlines()[2:])
    assert (least[1], other[1], least[-1].split()[0]) == ("50.0", "100.0", "1")
    assert minus[1].startswith("+50.0 ")
    assert not table(Records(tmp_path / "nothing"))
