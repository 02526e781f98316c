"""Models of a run that was judged before there were guards are judged by them, once."""

import json
import shutil
from pathlib import Path

import numpy as np

from dllm_rl.models.shipped import model_folder
from scripts.several_answers.outcome_tables import ways_table
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.report import Outcomes
from sudoku_dllm.trials import Records, write_job
from sudoku_dllm.trials.arguments import recorded
from tests.helpers.warm_process import finished, run_script

SCRIPT = Path(__file__).parents[3] / "scripts" / "several_answers" / "guards.py"


def test_what_lacks_the_guards_gets_them_and_keeps_its_cost(tmp_path: Path) -> None:
    script = ScriptArguments(arms=["sft"], seeds=[3], jobs=0, test_boards=4, draws=3, eval_tokens=[4], clues=[5, 8])
    recipe = RecipeArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    told = {**recorded(script, recipe), "arms": ["sft", "sft_nearest"]}
    (tmp_path / "arguments.json").write_text(json.dumps(told, default=str))
    spent = {"updates": 0, "puzzles_seen": 0, "cpu_seconds": 7.5, "seconds": 8.0, "empty_board": {"valid": 0.0}}
    old = {f"4/{way}/{name}": np.zeros(4) for way in ("free", "no_peers") for name in ("valid", "passes")}
    write_job(tmp_path / "base" / "seed3", {"arm": "base", "machine": "old", **spent}, old)
    write_job(tmp_path / "sft_nearest" / "seed3", {"arm": "sft_nearest", **spent}, old)
    shutil.copytree(model_folder(script.model), tmp_path / "sft_nearest" / "seed3" / "model")
    before = Outcomes(script, recipe, tmp_path, ["base"])
    assert before.judged_by(None) == ["base"] and len(ways_table(before, "rules").splitlines()) == 2
    finished(SCRIPT, [tmp_path], timeout=300)
    assert "the solver at decoding" in (tmp_path / "tables.txt").read_text() and (tmp_path / "table.csv").is_file()
    found, result = Records(tmp_path).outcomes("base/seed3"), Records(tmp_path).result("base/seed3")
    assert result is not None and (result["cpu_seconds"], result["machine"]) == (7.5, "old")
    assert result["empty_board_completable"]["valid"] == 1 and found["36/completable/valid"].all()
    gone = Records(tmp_path).outcomes("sft_nearest/seed3")
    assert found.keys() == gone.keys() and np.array_equal(found["4/free/valid"], gone["4/free/valid"])
    assert not any("no_peers" in name for name in found) and "4/free/joint" in found
    written = (tmp_path / "base" / "seed3" / "result.json").stat().st_mtime_ns
    assert run_script(SCRIPT, [tmp_path], timeout=300).returncode == 0
    assert (tmp_path / "base" / "seed3" / "result.json").stat().st_mtime_ns == written
