"""The game of `scripts/raro/game.py`, as a user runs it."""

import json
from pathlib import Path

import pytest

from tests.helpers.warm_process import run_script

SCRIPT = Path(__file__).parents[3] / "scripts" / "raro" / "game.py"


@pytest.mark.slow
def test_the_critic_learns_to_tell_and_then_the_policy_to_answer_as_the_expert(tmp_path: Path) -> None:
    options = ["--seeds", "2", "--steps", "180", "--logging_steps", "20", "--output_dir", str(tmp_path)]
    done = run_script(SCRIPT, options)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "results.json").read_text("utf-8"))["2"]
    first, last = ({name: ends[place] for name, ends in found["first and last"].items()} for place in (0, 1))
    assert 0.4 < first["critic/accuracy"] < 0.6 and first["verified/good"] < 0.4
    assert found["best accuracy"] > 0.65  # the critic is ahead,
    assert last["verified/good"] > 0.85  # the policy catches up,
    assert last["critic/accuracy"] < 0.65  # and there is little left to tell.


def test_a_short_game_leaves_curves(tmp_path: Path) -> None:
    options = ["--seeds", "0", "1", "--steps", "2", "--start_steps", "100", "--logging_steps", "1"]
    done = run_script(SCRIPT, [*options, "--output_dir", tmp_path])
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["Run folder", "seed 0", "seed 1"]
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    assert len((tmp_path / "metrics_seed1.jsonl").read_text("utf-8").splitlines()) == 3
