"""verl trains on a processor: RARO with its replay memory, stopped and resumed, and GRPO on Sudoku."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from packaging.version import Version

from llm_rl.integrations.verl.memory import StepMemory

pytest.importorskip("verl", reason="verl is not installed, see docs/raro.md")
NEWER = Version(transformers.__version__) >= Version("5.11")
pytestmark = [pytest.mark.long, pytest.mark.skipif(NEWER, reason="verl 0.9 wants transformers < 5.11: make test-verl")]

ROOT = Path(__file__).resolve().parents[4]
NUMBER = r"(?:np\.\w+\()?(-?[\d.]+(?:e-?\d+)?)"


def run(*command):
    """What a program prints, started from the root; it must succeed."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHON": sys.executable}, text=True, capture_output=True, timeout=1200
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def train(name, *changes):
    """The metrics of each step that verl logs, by the step's number."""
    printed = run("scripts/verl/train_cpu.sh", name, *changes)
    lines = re.findall(r"step:(\d+) - (.*training/global_step:.*)", printed)
    return {int(step): dict(re.findall(rf"(\S+):{NUMBER}", line)) for step, line in lines}


def memory_of(folder, step):
    memory = StepMemory(10_000, "fifo", 0)
    memory.restore(str(folder / f"global_step_{step}"))
    return memory.pairs()


def check_payment(file):
    """Both roles are in a step's mixed batch, and the policy was paid for the labels that the critic is trained on."""
    scores = {row["uid"]: row["score"] for row in map(json.loads, file.read_text().splitlines())}
    groups = {}
    for uid, score in scores.items():
        groups.setdefault(uid.rsplit("_", 2)[0], []).append(score)
    judged = [uid for uid in groups if "_fresh" in uid]
    assert judged and all(len(group) == 4 for uid, group in groups.items() if not uid.startswith("pad"))
    for uid in judged:
        # A reward of 0 is a wrong label or none; an answer without any label was judged again.
        other = [0.6 * (score < 3) for score in groups[uid] if score > 2]
        allowed = [(sum(other) + wrong) / max(len(other) + wrong, 1) for wrong in range(5 - len(other))]
        allowed += [0.6] * (not other)
        assert any(abs(scores[uid.replace("_fresh", "_") + "_0"] - one) < 1e-5 for one in allowed)


@pytest.mark.parametrize("critic_batch", ["separate", "mixed"])
def test_raro_goes_on_with_weights_and_memory_of_its_checkpoint(tmp_path, critic_batch):
    game = ["--output_dir", str(tmp_path), "--start_steps", "60", "--critic_batch", critic_batch]
    run(sys.executable, "-m", "scripts.verl.raro_game", *game)
    checkpoints = tmp_path / "checkpoints"
    settings = [
        "+game=numbers",
        f"data.train_files={tmp_path}/train.parquet",
        f"data.val_files={tmp_path}/validation.parquet",
        f"actor_rollout_ref.model.path={tmp_path}/model",
        f"trainer.default_local_dir={checkpoints}",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=2",
        f"trainer.rollout_data_dir={tmp_path}/rollouts",
    ]
    if critic_batch == "mixed":
        settings += ["+critic_batch=mixed", "actor_rollout_ref.actor.ppo_mini_batch_size=72"]
    first = train("raro", *settings, "trainer.total_training_steps=2")
    then = train("raro", *settings, "trainer.total_training_steps=4")
    assert list(first) == [1, 2] and list(then) == [3, 4]

    # The server's log-probabilities are those of the weights that are trained; the first ones are the reference's.
    for metrics in [*first.values(), *then.values()]:
        assert float(metrics["training/rollout_probs_diff_max"]) < 1e-4
    assert abs(float(first[1]["actor/kl_loss"])) < 1e-9
    (extra,) = (checkpoints / "global_step_4" / "actor").glob("extra_state*")
    assert torch.load(extra, weights_only=False)["lr_scheduler"]["last_epoch"] == 4

    if critic_batch == "mixed":
        for step in range(1, 5):
            check_payment(tmp_path / "rollouts" / f"{step}.jsonl")

    # The memory goes on where it was saved.
    saved, later = memory_of(checkpoints, 2), memory_of(checkpoints, 4)
    assert saved and later[: len(saved)] == saved
    assert {one.step for one in saved} <= {1, 2} and {one.step for one in later[len(saved) :]} <= {3, 4}


@pytest.mark.parametrize("game", ["sudoku", "sudoku_text"])
def test_grpo_on_sudoku_is_paid_by_the_solver_or_by_the_game(tmp_path, game):
    run(sys.executable, "-m", "scripts.verl.sudoku", "--output_dir", str(tmp_path), "--start_steps", "60")
    ending = "" if game == "sudoku" else "_games"
    steps = train(
        "sudoku",
        f"+game={game}",
        f"data.train_files={tmp_path}/train{ending}.parquet",
        f"data.val_files={tmp_path}/validation{ending}.parquet",
        f"actor_rollout_ref.model.path={tmp_path}/model",
        f"trainer.default_local_dir={tmp_path}/checkpoints",
        "trainer.total_training_steps=2",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
    )
    assert list(steps) == [1, 2]
    for metrics in steps.values():
        assert float(metrics["training/rollout_probs_diff_max"]) < 1e-4
        assert 0 <= float(metrics["critic/score/min"]) <= float(metrics["critic/score/max"]) <= 1
