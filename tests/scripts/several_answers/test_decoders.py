"""Other decoders of the study's models: what a shipped model completes, and the tables."""

import numpy as np
import pytest

from dllm_rl.models.shipped import load
from scripts.several_answers.decoders import FOLDER, WAYS, outcomes_of, tables
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.judging import judge
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.record import Records, write_job


@pytest.mark.slow
def test_outcomes_are_those_of_the_study_and_looser_bounds_need_fewer_passes() -> None:
    setting = Setting.load(ScriptArguments(test_boards=12), RecipeArguments(use_cpu=True, report_to="none"))
    model, tests = load("llada-sudoku6x6-converged-judged").model, setting.batch(setting.test_boards())
    found = outcomes_of(model, tests)
    for k in (2, 9):
        same = judge(model, tests, k)
        assert np.array_equal(found[f"number/{k}/valid"], same.valid)
        assert np.array_equal(found[f"number/{k}/passes"], same.passes)
    blanks = (setting.test_boards() == 0).sum(1)
    for way, values in WAYS.items():
        passes = np.array([found[f"{way}/{value}/passes"] for value in values])
        assert passes[0].mean() != passes[-1].mean() and passes.mean(1).min() >= 1 and (passes <= blanks).all()


def test_tables_by_hand(tmp_path) -> None:
    """Two boards; a number k solves both up to 4, one at 12, none at 16, in 32 / k passes."""
    outcomes = {}
    for way, values in WAYS.items():
        for number, value in enumerate(values):
            k = int(value) if way == "number" else 2**number
            solved = [True, True] if k <= 4 else [True, False] if k <= 12 else [False, False]
            outcomes[f"{way}/{value}/valid"] = np.array(solved)
            outcomes[f"{way}/{value}/passes"] = np.full(2, 32 / k)
    write_job(tmp_path / FOLDER / "judged" / "seed0", {"arm": "judged"}, outcomes)
    (needed,) = tables(Records(tmp_path)).values()
    number = needed.splitlines()[2].split("|")
    assert number[2].strip() == "a number" and number[3].split()[0] == f"{(32 / 12 + 32 / 4) / 2:.1f}"  # 75 %
    assert not tables(Records(tmp_path / "nothing"))
