"""The study on traces: an arm's run, its report, and what the command refuses."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scripts.propagation import arms, report
from scripts.propagation.settings import CONTROLS, MAIN, TOKENS_PER_STEP, TRAININGS, Training
from scripts.study.arm import training_arguments
from scripts.study.config import ArmBudget, StudyConfigError
from tests.scripts.helpers.in_process import run_here


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Training]]:
    """Two arms and a control of two updates, two seeds each, judged on 30 traces."""
    folder = tmp_path_factory.mktemp("runs")
    small = {
        name: replace(TRAININGS[name], arm=replace(TRAININGS[name].arm, budget=ArmBudget(steps=2)), examples=30)
        for name in ("sft", "log_f_ce_definite_4", "sft_spliced")
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arms, "TEST_TRACES", 30)
        patch.setattr(arms, "VALIDATION_TRACES", 10)
        for name, training in small.items():
            for seed in (0, 1):
                arms.run_arm(training, name, seed, folder / name / f"seed{seed}")
    return folder, small


def use(monkeypatch: pytest.MonkeyPatch, trainings: dict[str, Training]) -> None:
    monkeypatch.setattr(report, "TRAININGS", trainings)
    monkeypatch.setattr(report, "MAIN", {name: one for name, one in trainings.items() if name in MAIN})
    monkeypatch.setattr(report, "CONTROLS", {name: one for name, one in trainings.items() if name in CONTROLS})


def test_a_result_tells_what_was_solved_and_spent(runs: tuple[Path, dict[str, Training]]) -> None:
    folder, _ = runs
    result = json.loads((folder / "sft" / "seed1" / "result.json").read_text())
    assert (result["arm"], result["seed"], result["updates"]) == ("sft", 1, 2)
    assert result["cpu_seconds"] > 0
    with np.load(folder / "sft" / "seed1" / "outcomes.npz") as outcomes:
        for kind in ("test", "hard_test"):
            for tokens in TOKENS_PER_STEP:
                assert outcomes[f"{kind}/{tokens}"].shape == (30,)
                assert outcomes[f"{kind}/{tokens}"].mean() == pytest.approx(result["solved"][f"{kind}/{tokens}"])


def test_the_report_has_the_arms_and_controls_that_are_there(
    runs: tuple[Path, dict[str, Training]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, trainings = runs
    use(monkeypatch, trainings)
    found = report.load(folder)
    assert {name: found.seeds(name) for name in found.arms} == {name: [0, 1] for name in trainings}
    report.write_report(folder, tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert "| `log_f_ce_definite_4` − `sft` |" in text
    assert "`sft_spliced` | 2 |" in text
    assert (tmp_path / "images" / report.PICTURE).stat().st_size > 1000


def test_results_of_other_settings_are_not_mixed_in(
    runs: tuple[Path, dict[str, Training]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, trainings = runs
    use(monkeypatch, {"sft": replace(trainings["sft"], examples=31)})
    with pytest.raises(StudyConfigError, match="examples"):
        report.write_report(folder, tmp_path / "report.md")


def test_every_arm_has_arguments_that_its_trainer_takes(tmp_path: Path) -> None:
    for name, training in TRAININGS.items():
        args = training_arguments(training.arm, tmp_path, 0)
        assert args.learning_rate == training.arm.arguments["learning_rate"], name


@pytest.mark.slow
def test_the_command_runs_what_has_no_result_and_writes_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The smallest arm alone: in a process of its own; the second call has nothing left to run."""
    for left in (1, 0):
        words = ["--arms", "ce_4", "--seeds", 7, "--output_dir", tmp_path / "run", "--report", tmp_path / "page.md"]
        run_here(monkeypatch, "propagation/study.py", *words)
        assert f"{1 - left} of 1 results are there; {left} to run." in capsys.readouterr().out
    assert (tmp_path / "page.md").is_file() and (tmp_path / "run" / "ce_4" / "seed7" / "result.json").is_file()


def test_an_unknown_arm_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run_here(monkeypatch, "propagation/study.py", arms="stf")
    assert end.value.code == 2
    assert "arms ['stf'] are unknown; there are sft, sft_definite" in capsys.readouterr().err
