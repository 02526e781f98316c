"""The least completion in another order of cells: a training of two updates, and the table by hand."""

from pathlib import Path

import numpy as np
import pytest

from scripts.several_answers.reading_order import LABEL, SHUFFLED, table
from sudoku_dllm.several.arguments import ScriptArguments
from sudoku_dllm.trials import Records, write_job
from tests.helpers.warm_process import run_script

SCRIPT = Path(__file__).parents[3] / "scripts" / "several_answers" / "reading_order.py"


def test_the_table_compares_seeds_that_both_have(tmp_path: Path) -> None:
    for arm, seed, solved in ((LABEL, 0, [1, 0]), (LABEL, 1, [0, 0]), (SHUFFLED, 0, [1, 1])):
        outcomes = {f"{k}/free/valid": np.array(solved, bool) for k in ScriptArguments().eval_tokens}
        write_job(tmp_path / arm / f"seed{seed}", {"arm": arm}, outcomes)
    least, other, minus = (line.split(" | ") for line in table(Records(tmp_path)).splitlines()[2:])
    assert (least[1], other[1], least[-1].split()[0]) == ("50.0", "100.0", "1")
    assert minus[1].startswith("+50.0 ")
    assert not table(Records(tmp_path / "nothing"))


@pytest.mark.slow
def test_it_is_trained_judged_and_kept_once(tmp_path: Path) -> None:
    words = ["--seeds", "0", "--updates", "2", "--output_dir", tmp_path]
    assert run_script(SCRIPT, words, timeout=300).returncode == 0
    result = tmp_path / SHUFFLED / "seed0" / "result.json"
    written = result.stat().st_mtime_ns
    assert Records(tmp_path).outcomes(f"{SHUFFLED}/seed0")["4/free/valid"].shape == (400,)
    assert run_script(SCRIPT, words, timeout=300).returncode == 0 and result.stat().st_mtime_ns == written


def test_no_updates_are_named(tmp_path: Path) -> None:
    done = run_script(SCRIPT, ["--updates", "0", "--output_dir", tmp_path], timeout=300)
    assert done.returncode == 2 and "updates=0 be positive" in done.stderr
