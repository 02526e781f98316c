"""`scripts/study/run.py` as a user runs it, on the base of the repository."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.warm_process import run_script
from tests.scripts.helpers.page_data import page_data

ROOT = Path(__file__).parents[3]
DATA = ROOT / "data"
UNMASK = {"per_device_train_batch_size": 2, "num_generations": 2, "learning_rate": 1e-4, "position_temperature": 1.0}


def regime(**changes: Any) -> dict[str, Any]:
    arms = {
        "rl": {"kind": "unmask", "budget": {"steps": 2}, "arguments": UNMASK},
        "sft": {
            "kind": "sft",
            "control": True,
            "budget": {"same_as": "rl"},
            "arguments": {"per_device_train_batch_size": 8, "learning_rate": 1e-4},
        },
    }
    return {
        "base": str(DATA / "models" / "llada-sudoku6x6"),
        **{name: str(DATA / f"sudoku6x6_{name}.jsonl") for name in ("train", "validation", "test")},
        "max_gen_length": 40,
        "train_puzzles": 40,
        "validation_puzzles": 5,
        "test_puzzles": 20,
        "evaluation": [{"strategy": "margin", "tokens_per_step": count} for count in (4, 8)],
        "seeds": [3],  # golden: folders are named after it
        "save": False,
        "arms": arms,
        **changes,
    }


def study(folder: Path, regime: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    config = folder / "study.yaml"
    config.write_text(yaml.safe_dump({"regimes": {"few": regime}}, sort_keys=False), encoding="utf-8")
    places = ["--output_dir", folder / "runs", "--report", folder / "docs" / "results.md"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return run_script(ROOT / "scripts" / "study" / "run.py", [config, *places, *words], env=environment, timeout=300)


@pytest.mark.slow
def test_a_study_goes_on_where_it_was(tmp_path: Path) -> None:
    first = study(tmp_path, regime(), "--arms", "base", "rl", "--jobs", "2")
    assert first.returncode == 0, first.stderr[-3000:]
    assert "0 of 2 results are there; 2 to run." in first.stdout and "definite first" in first.stdout
    second = study(tmp_path, regime(remarks="Seen.", passes=[5]))
    assert second.returncode == 0, second.stderr[-3000:]
    assert "2 of 3 results are there; 1 to run." in second.stdout
    results = {
        arm: json.loads((tmp_path / f"runs/few/{arm}/seed3/result.json").read_text(encoding="utf-8"))
        for arm in ("base", "rl", "sft")
    }
    assert results["rl"]["updates"] == 2
    assert results["sft"]["budget"] == {"by": "cpu_seconds", "amount": results["rl"]["cpu_seconds"]}
    assert results["sft"]["cpu_seconds"] >= results["rl"]["cpu_seconds"]
    assert not list((tmp_path / "runs").rglob("*.safetensors"))
    report = tmp_path / "docs" / "results.md"
    text = report.read_text(encoding="utf-8")
    assert "rl − sft" in text and "Seen." in text and (tmp_path / "docs/images/study_few.png").exists()
    page = page_data(tmp_path / "runs" / "report.html")
    assert [row[0] for row in page["tables"][0]["rows"]] == ["base", "rl", "sft"]
    assert set(page["curves"][0]["lines"]) == {"rl", "sft"} and "few (seeds [3])" in page["facts"]["regimes"]
    assert len(page["replays"]) == 10 and page["replays"][0]["title"].startswith("few, sft, margin")
    report.unlink()
    again = study(tmp_path, regime(remarks="Seen.", passes=[5]), "--report_only")
    assert again.returncode == 0 and report.read_text(encoding="utf-8") == text
    refused = study(tmp_path, regime(test_puzzles=10), "--report_only")
    assert refused.returncode != 0 and "other settings (test_puzzles differ)" in refused.stderr


@pytest.mark.slow
def test_a_failure_is_told_and_what_depends_on_it_is_not_run(tmp_path: Path) -> None:
    leaky = regime(train=str(DATA / "sudoku6x6_test.jsonl"))
    failed = study(tmp_path, leaky, "--arms", "rl", "sft")
    assert failed.returncode == 1 and "2 of 2 did not finish: few rl 3, few sft 3" in failed.stderr
    assert "its budget is that of 'rl', which has no result" in failed.stdout
    log = (tmp_path / "runs/few/rl/seed3/log.txt").read_text(encoding="utf-8")
    assert "solution grids occur in training" in log
    assert "Not run yet." in (tmp_path / "docs" / "results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--arms", "rlx"), "arms ['rlx'] are not in"), (("--jobs", "0"), "jobs=0 must be at least 1")],
)
@pytest.mark.slow
def test_bad_arguments_are_refused(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    refused = study(tmp_path, regime(), *words)
    assert refused.returncode == 2 and message in refused.stderr


@pytest.mark.slow
def test_arguments_of_a_trainer_are_tried_before_anything_runs(tmp_path: Path) -> None:
    wrong = regime()
    wrong["arms"]["rl"]["arguments"] = {**UNMASK, "position_temperature": -1.0}
    refused = study(tmp_path, wrong)
    assert refused.returncode == 2 and "position_temperature" in refused.stderr
    assert not (tmp_path / "runs").exists()
