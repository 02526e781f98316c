"""The kill test on small programs, right and wrong ones, and on trainers."""

import json
import runpy
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import save_file

from sudoku_dllm.kill_test.comparison import compare_runs
from sudoku_dllm.kill_test.moments import Rhythm, draw_moments
from sudoku_dllm.kill_test.processes import Started
from sudoku_dllm.kill_test.resume import ResumeReport, ResumeTestError, check_resume, main
from tests.helpers import warm_process  # noqa: F401  (functions then start in processes that have imported what they need)
from tests.helpers.drawn import first_seed
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.small_training import train

COMMAND = [sys.executable, str(Path(__file__).parents[2] / "llm_rl" / "helpers" / "small_training.py"), "{folder}"]


def test_a_program_that_resumes_exactly_passes_from_the_command_line(tmp_path, capsys) -> None:
    assert main(["--kills", "4", "--seed", "22", "--output_dir", str(tmp_path / "new"), "--", *COMMAND]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith("PASSED: the same bit for bit\n") and "steps: 16 | 16" in printed
    assert (tmp_path / "new" / "report.txt").read_text() == printed
    record = json.loads((tmp_path / "new" / "report.json").read_text())
    assert record["passed"] and record["kills"] and record["comparison"]["parts"]["log"]["files"] == 8


def seed_of(kills: int, phase: str = "training") -> int:
    """The first seed of which a kill comes after a checkpoint, in a phase of the run."""
    rhythm = Rhythm(10.0, {step: 0.6 * step for step in range(2, 17, 2)}, 0.5, frozenset(), frozenset())

    def suits(seed: int) -> bool:
        return any(moment.after and moment.phase == phase for moment in draw_moments(rhythm, kills, seed))

    return first_seed(suits, seed=22)


def faulty(folder: Path, fault: str, kills: int = 4, phase: str = "training") -> ResumeReport:
    report = check_resume([*COMMAND, fault], folder, kills=kills, seed=seed_of(kills, phase))
    assert not report.passed and f"{report}\n" == (folder / "report.txt").read_text()
    return report


@pytest.mark.parametrize(("fault", "part"), [("random", "random state"), ("momentum", "optimizer")])
def test_a_forgotten_state_fails_and_the_first_difference_is_named(tmp_path, fault, part) -> None:
    report = faulty(tmp_path, fault)
    assert report.repeated.first is None
    first = report.comparison.first
    assert first.largest and first.step > min(kill.step for kill in report.kills if kill.step is not None)
    assert f"FAILED: the killed run differs, first at step {first.step}, " in report.verdict
    assert report.comparison.parts[part].different and report.comparison.parts["weights"].largest


def test_a_forgotten_buffer_fails_within_the_buffer(tmp_path) -> None:
    """A buffer serves the steps 1–5, 6–10, 11–15."""
    assert faulty(tmp_path, "buffer").comparison.first.step % 5 != 1


def test_half_a_checkpoint_stops_the_next_start_and_spoils_the_verdict(tmp_path) -> None:
    report = faulty(tmp_path, "in_place", phase="saving")
    assert report.same and report.finished
    failure = report.failures[0]
    kill = report.kills[failure.after_kills - 1]
    assert kill.phase == "saving" and kill.unfinished == (failure.removed,)
    assert "No such file" in failure.last_line and "only with checkpoints removed by hand" in report.verdict
    assert f"failed; went on without {failure.removed}" in str(report)


def test_beginning_anew_is_no_resuming(tmp_path) -> None:
    report = faulty(tmp_path, "anew", kills=3)
    assert report.same and any(kill.started_over for kill in report.kills)
    assert "began anew" in report.verdict


def test_a_program_that_does_not_repeat_itself_is_not_blamed_for_the_kills(tmp_path) -> None:
    verdict = faulty(tmp_path, "unseeded", kills=1).verdict
    assert verdict.startswith("UNDECIDED: two runs that were left alone differ as well")


def test_what_cannot_be_tested_is_said_before_or_at_once(tmp_path, capsys) -> None:
    refused(r"exit code 1; .*reference\.log", lambda: check_resume([*COMMAND, "broken"], tmp_path), ResumeTestError)
    assert "nothing works" in (tmp_path / "reference.log").read_text()
    refused("holds a kill test already", lambda: check_resume(COMMAND, tmp_path), FileExistsError)
    refused("kills is 0", lambda: check_resume(COMMAND, tmp_path / "other", kills=0))
    refused("no folder checkpoint-<step>", lambda: check_resume(["mkdir", "{folder}"], tmp_path / "empty"))
    with pytest.raises(SystemExit) as ended:
        main(["--output_dir", str(tmp_path / "other"), "--", "python", "train.py"])
    assert ended.value.code == 2 and "write {folder} in the place" in capsys.readouterr().err


def test_a_function_runs_in_processes_of_its_own(tmp_path) -> None:
    report = check_resume(partial(train, fault="momentum"), tmp_path, kills=2, seed=seed_of(2))
    assert report.kills and report.comparison.first is not None


def test_a_kill_reaches_processes_that_left_the_group(tmp_path) -> None:
    """A program leaves the group as the workers of torchrun do."""
    process = Started(["sh", "-c", "setsid sleep 60 & echo $! > {folder}; wait"], tmp_path / "id", tmp_path / "log")
    while not (tmp_path / "id").exists() or not (tmp_path / "id").read_text().strip():
        assert process.exit_code() is None
        time.sleep(0.01)
    worker = psutil.Process(int((tmp_path / "id").read_text()))
    assert worker.is_running()
    process.kill()
    assert process.exit_code() == -9
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def test_a_start_that_hangs_is_ended_and_told(tmp_path) -> None:
    """It hangs the first time that there is a checkpoint to go on from."""
    hanging = '[ -d "$1/checkpoint-2" ] && [ ! -e "$1.hung" ] && touch "$1.hung" && sleep 60; exec "$0" "$2" "$1"'
    command = ["sh", "-c", hanging, sys.executable, "{folder}", COMMAND[1]]
    report = check_resume(command, tmp_path, kills=2, seed=seed_of(2), timeout=6)
    assert "took too long" in report.verdict and report.failures[0].exit_code is None


def test_moments_come_from_the_seed_and_lie_within_the_run() -> None:
    rhythm = Rhythm(10.0, {5: 4.0, 10: 6.0, 15: 8.0}, 0.5, frozenset(), frozenset())
    assert rhythm.starting_seconds == 2.0
    moments = draw_moments(rhythm, 400, seed=3)
    assert moments == draw_moments(rhythm, 400, seed=3) != draw_moments(rhythm, 400, seed=4)
    assert {moment.after for moment in moments} == {None, 5, 10, 15}
    phases = [moment.phase for moment in moments]
    assert phases.count("starting") == pytest.approx(40, abs=20)
    assert phases.count("saving") == pytest.approx(150, abs=40)  # none after the last one
    assert all(0 <= moment.spare <= 2 and 0 <= moment.pause <= 0.5 for moment in moments)
    assert all(0 <= moment.delay <= 2 for moment in moments if moment.phase == "training" and moment.after)
    assert [moment.after or 0 for moment in moments] == sorted(moment.after or 0 for moment in moments)


def write_run(folder: Path, weights=(1.0, 2.0), schedule=None, loss=0.5, seconds=1.0) -> None:
    checkpoint = folder / "checkpoint-2"
    checkpoint.mkdir(parents=True)
    save_file({"weights": torch.tensor(weights)}, checkpoint / "model.safetensors")
    torch.save({"state": {0: {"exp_avg": torch.ones(2)}}}, checkpoint / "optimizer.pt")
    torch.save(schedule or {"lr": 1.0}, checkpoint / "scheduler.pt")
    history = [{"step": 1, "loss": loss, "train_runtime": seconds}]
    state = {"global_step": 2, "best_model_checkpoint": str(checkpoint), "log_history": history}
    (checkpoint / "trainer_state.json").write_text(json.dumps(state))


def test_folder_names_and_times_are_no_differences(tmp_path) -> None:
    write_run(tmp_path / "one")
    write_run(tmp_path / "two", seconds=2.0)
    (tmp_path / "two" / "partial").mkdir()
    found = compare_runs(tmp_path / "one", tmp_path / "two")
    assert found.first is None and found.left_over == ("partial",)
    files = {name: part.files for name, part in found.parts.items()}
    assert files == {"weights": 1, "optimizer": 1, "schedule": 1, "log": 1}


@pytest.mark.parametrize(
    ("changes", "part", "step", "largest"),
    [
        ({"weights": [1.0, 2.5]}, "weights", 2, 0.5),
        ({"weights": [1.0, 2.0, 3.0]}, "weights", 2, None),
        ({"loss": 0.75}, "log", 1, 0.25),
        ({"loss": float("nan")}, "log", 1, float("nan")),
        ({"schedule": {"lr": 3.0}}, "schedule", 2, 2.0),
    ],
)
def test_each_difference_is_found(tmp_path, changes, part, step, largest) -> None:
    write_run(tmp_path / "one")
    write_run(tmp_path / "two", **changes)
    found = compare_runs(tmp_path / "one", tmp_path / "two")
    assert (found.first.part, found.first.step) == (part, step)
    assert found.parts[part].largest == pytest.approx(largest, nan_ok=True)


def test_a_zero_of_the_other_sign_differs_and_nan_is_equal_to_itself(tmp_path) -> None:
    write_run(tmp_path / "one", weights=[0.0, float("nan")])
    write_run(tmp_path / "two", weights=[0.0, float("nan")], seconds=2.0)
    write_run(tmp_path / "three", weights=[-0.0, float("nan")])
    assert compare_runs(tmp_path / "one", tmp_path / "two").first is None
    assert compare_runs(tmp_path / "one", tmp_path / "three").first is not None


def test_missing_and_damaged_files_are_differences(tmp_path) -> None:
    for name in ("one", "two", "three"):
        write_run(tmp_path / name)
    (tmp_path / "two" / "checkpoint-2" / "optimizer.pt").unlink()
    assert "is missing" in str(compare_runs(tmp_path / "one", tmp_path / "two").first)
    (tmp_path / "three" / "checkpoint-2" / "model.safetensors").write_bytes(b"\0" * 20)
    assert "the file can be read | cannot" in str(compare_runs(tmp_path / "one", tmp_path / "three").first)


class Harmful:
    """Its unpickling would leave a trace."""

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("unpickled"),)


def test_nothing_is_unpickled(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "one")
    write_run(tmp_path / "two", schedule=Harmful())
    write_run(tmp_path / "three", schedule=[Harmful(), 2])
    for first, second in (("one", "two"), ("two", "three")):
        found = compare_runs(tmp_path / first, tmp_path / second)
        assert "schedule" not in found.parts or found.parts["schedule"].different
    assert found.not_compared == ("scheduler.pt",) and not (tmp_path / "unpickled").exists()


def trainer_here(folder: Path, name: str) -> None:
    sys.argv = ["", name, "--max_steps", "16", "--output_dir", str(folder)]
    runpy.run_module("scripts.benchmarks.kill_test_trainer", run_name="__main__")


def trained(name: str, folder: Path, kills: int) -> ResumeReport:
    return check_resume(partial(trainer_here, name=name), folder, kills=kills, seed=22)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grpo", "unmask"])
def test_our_trainers_pass(tmp_path, name) -> None:
    report = trained(name, tmp_path, kills=3)
    assert report.passed and len(report.kills) >= 2, str(report)


@pytest.mark.long
@pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed; pip install 'sudoku-dllm[trl]'")
def test_trl_samples_anew_in_mid_buffer(tmp_path) -> None:
    """A buffer serves the steps 1–4, 5–8 and so on; what docs/reliability.md says of TRL is still so."""
    report = trained("trl", tmp_path, kills=5)
    first = report.comparison.first
    assert not report.passed and first.part == "completions" and first.step % 4 != 1
    assert report.repeated.first is None
