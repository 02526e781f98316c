"""A comparison of one's own as a user writes and runs it: `examples/compare_addition.py`, in small, and its table."""

import json
import os
import re
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from safetensors.torch import load_file

from sudoku_dllm.trials.jobs import Job, Lines, in_processes
from sudoku_dllm.trials.record import Records, write_job
from sudoku_dllm.trials.trial import TrialArguments
from sudoku_dllm.trials.trial_report import table
from tests.helpers.warm_process import ROOT, SERVER, finished, run_script

EXAMPLE = ROOT / "examples" / "compare_addition.py"
SMALL = ["--sums", "40", "--start_steps", "2", "--width", "2"]


def run(folder: Path, *words: str) -> str:
    return finished(EXAMPLE, [*SMALL, *words, "--output_dir", folder], timeout=300).stdout


def weights(folder: Path) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in load_file(folder / "model" / "model.safetensors").items()}


def test_arms_begin_with_the_start_of_their_seed_and_a_seed_gives_the_same_twice(tmp_path) -> None:
    """One after the other in this process, and again in two processes: the same outcomes, as updates are the budget."""
    options = ["--seeds", "0", "1", "--arms", "sft", "objective", "--max_steps", "2"]
    first = run(tmp_path / "one", *options, "--jobs", "0")
    run(tmp_path / "two", *options, "--jobs", "2")
    one, two = Records(tmp_path / "one"), Records(tmp_path / "two")
    names = [f"{arm}/seed{seed}" for arm in ("objective", "sft", "start") for seed in (0, 1)]
    assert one.jobs() == two.jobs() == names
    for job in one.jobs():
        assert np.array_equal(one.outcomes(job)["solved"], two.outcomes(job)["solved"])
        assert (one.result(job) or {})["updates"] == (0 if job.startswith("start") else 2)
    starts = [weights(tmp_path / "one" / "start" / f"seed{seed}") for seed in (0, 1)]
    assert any(not np.array_equal(starts[0][name], starts[1][name]) for name in starts[0])
    text = (tmp_path / "one" / "table.md").read_text(encoding="utf-8")
    titles = [line.split(" | ")[0] for line in text.splitlines()[2:]]
    assert text in first and titles == ["| start", "| more SFT", "| the objective"]


def test_what_is_there_is_kept_and_an_arm_can_be_added(tmp_path) -> None:
    run(tmp_path, "--seeds", "0", "--arms", "sft", "--max_steps", "2", "--jobs", "0")
    times = {job: (tmp_path / job / "result.json").stat().st_mtime_ns for job in ("start/seed0", "sft/seed0")}
    more = ["--seeds", "0", "--arms", "sft", "sft_definite", "--max_steps", "2", "--jobs", "0"]
    said = run(tmp_path, *more, "--resume_from_checkpoint", "last")
    assert "1 of 1 results are there already" in said and "1 of 2 results are there already" in said
    assert times == {job: (tmp_path / job / "result.json").stat().st_mtime_ns for job in times}
    assert len(Records(tmp_path).jobs()) == 3

    # With other arguments what is there was made differently.
    words = [*SMALL, *more, "--resume_from_checkpoint", "last", "--output_dir", tmp_path]
    words[words.index("--max_steps") + 1] = "3"
    done = run_script(EXAMPLE, words, timeout=300)
    assert done.returncode == 2 and "max_steps was 2 and is 3" in done.stderr


def test_a_budget_is_time_unless_updates_are_asked_for() -> None:
    assert TrialArguments(cpu_seconds=3.0).budget.by == "cpu_seconds"
    assert (TrialArguments(max_steps=7).budget.by, TrialArguments(max_steps=7).budget.amount) == ("steps", 7)


TITLES = SimpleNamespace(ARMS={"mine": "mine", "more": "the control"}, CONTROL="more", FIGURES={"length": "length"})


def write(folder: Path, arm: str, seed: int, solved: list[float], **figures: float) -> None:
    result = {"arm": arm, "seed": seed, "updates": 1000, "cpu_seconds": 2.4, **figures}
    write_job(folder / arm / f"seed{seed}", result, {"solved": np.array(solved)})


def test_the_table_by_hand(tmp_path) -> None:
    """Leads of 100 and 50 points over the control: 75, two seeds, t of one degree of freedom 12.7 times 25."""
    for seed, shares in enumerate(([1.0, 1.0], [0.5, 1.0])):
        write(tmp_path, "mine", seed, shares, length=seed)
        write(tmp_path, "more", seed, [0.0, 0.5 * seed], length=3)
        write(tmp_path, "start", seed, [0.0, 0.0], length=2)
    head, _, start, mine, more = table(Records(tmp_path), TITLES).splitlines()
    assert head == "|  | solved % | each seed | minus start | minus the control | length | updates | CPU s |"
    assert start.startswith("| start | 0.0 | 0.0, 0.0 |  | -12.5 ") and start.endswith(" | 2 (2, 2) | 1,000 | 2 |")
    assert mine.startswith("| mine | 87.5 | 100.0, 75.0 | +87.5 ") and " | 0.5 (0, 1) | " in mine
    found = re.search(r"\+75\.0 \[\+75\.0, \+75\.0\] \[(.*?), (.*?)\]", mine)
    assert found and [float(end) for end in found.groups()] == pytest.approx([75 - 317.7, 75 + 317.7], abs=0.1)
    assert more.split(" | ")[4] == ""


def test_seeds_with_different_models_make_no_table(tmp_path) -> None:
    write(tmp_path, "mine", 0, [1.0, 0.0])
    write(tmp_path, "start", 0, [1.0, 0.0])
    write(tmp_path, "start", 1, [1.0, 0.0])
    with pytest.raises(ValueError, match="no result of mine with seed 1"):
        table(Records(tmp_path), TITLES)


def test_without_outcomes_figures_alone_are_shown(tmp_path) -> None:
    folder = tmp_path / "mine" / "seed0"
    write_job(folder, {"arm": "mine", "seed": 0, "updates": 1, "cpu_seconds": 1, "length": 4.0}, {})
    assert json.loads((folder / "result.json").read_text())["length"] == 4.0
    assert table(Records(tmp_path), TITLES).splitlines()[0] == "|  | length | updates | CPU s |"


def test_the_example_is_as_short_as_its_page_says() -> None:
    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    lines = len(EXAMPLE.read_text(encoding="utf-8").splitlines())
    assert lines <= 150 and f"{lines} lines" in page


class Endless:
    """A setting whose jobs never say how far they are."""

    quiet = True

    def run(self, job: Job, folder: Path, **_: Any) -> None:
        with FileLock(folder / "lock"):
            (folder / "begun").touch()
            time.sleep(600)


def start_a_job(folder: Path) -> None:
    in_processes(Endless(), folder, [Job("endless", 0)], 1, resume=False)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_job_ends_with_the_process_that_started_it(tmp_path, how) -> None:
    process, folder, until = SERVER.Process(target=start_a_job, args=(tmp_path,)), tmp_path / "endless/seed0", 200.0
    process.start()
    while not (folder / "begun").exists() and (until := until - 0.1) > 0:
        time.sleep(0.1)
    os.kill(process.pid or 0, how)
    process.join()
    with FileLock(folder / "lock", timeout=60):  # held while the job runs
        assert (folder / "begun").exists() and process.exitcode == -how


def test_time_left_is_measured_after_ten_seconds_and_told_every_twenty(capsys) -> None:
    base, first, second = jobs = [Job("base", 0), Job("sft", 0), Job("judged", 0)]
    now = 0.0
    lines = Lines(jobs, quiet=True, at_a_time=2, clock=lambda: now)
    told: dict[float, str] = {}

    def at(seconds: float, **shares: tuple[str, float]) -> None:
        nonlocal now
        now = seconds
        for arm, (phase, share) in shares.items():
            lines.show(Job(arm, 0), phase, share)
        if printed := capsys.readouterr().out.strip():
            told[seconds] = printed

    # Up to its first step, here at 6 s, an arm reads files: that tells no speed.
    at(0, base=("decoding", 1e-6), sft=("training", 0.0))
    at(6, base=("decoding", 0.05), sft=("training", 0.01))
    at(9.9, base=("decoding", 0.08), sft=("training", 0.0165))
    at(12, base=("decoding", 0.1), sft=("training", 0.02))
    at(31, base=("decoding", 0.2), sft=("training", 0.06))
    at(33, base=("decoding", 0.2), sft=("training", 0.06))
    lines.end(base, "decoded")
    lines.end(first, "trained")
    capsys.readouterr()
    at(500, judged=("decoding", 0.5))
    # 120 s a decoding, 600 s a training: (108 + 708 + 720) / 2 = 768 s.
    assert told[12] == "base decoding 10%, sft training 2%, about 13 minutes left as measured"
    # 165 s a decoding, 500 s a training: (132 + 635 + 665) / 2 = 716 s.
    assert told[33] == "base decoding 20%, sft training 6%, about 12 minutes left as measured"
    assert told[500] == "judged decoding 50%, about 2 minutes left as measured" and sorted(told) == [12, 33, 500]
    lines.end(second, "judged")


def test_time_left_says_that_what_was_not_measured_is_left_out(capsys) -> None:
    times = iter([0.0, 0.0, 0.0, 30.0, 30.0])
    lines = Lines([Job("sft", 0)], quiet=True, clock=lambda: next(times))
    for share in (0.5, 0.625):  # resumed in its middle
        lines.show(Job("sft", 0), "training", share)
    assert capsys.readouterr().out.strip() == "sft training 62%, at least 2 minutes left as measured"
