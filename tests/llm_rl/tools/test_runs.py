"""Runs with tools: resumed, killed, in two processes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from sudoku_dllm.kill_test.comparison import compare_runs
from tests.helpers.warm_process import SERVER, run_in_two_processes
from tests.llm_rl.helpers.tiny_grpo import KeepGradients, untimed
from tests.llm_rl.helpers.tool_runs import RESUMED, SAVING, DrawingPlayer, fixed_player, play, trainer

HELPERS = Path(__file__).parents[1] / "helpers"


@pytest.mark.parametrize("name", RESUMED)
def test_a_run_goes_on_within_a_roll_out_and_between_two(tmp_path: Path, name: str) -> None:
    """The players draw from torch's generator, so what is played after resuming depends on its state."""
    changes = {**SAVING, **RESUMED[name], "max_steps": 4}
    kind = changes.pop("kind")
    player = DrawingPlayer()
    whole = trainer(kind, tmp_path / "whole", player, **changes)
    whole.train()
    lines = untimed(whole.state.log_history)
    assert 1 < lines[0]["turns"] <= 3 and lines[0]["tool_raised_frac"] > 0
    assert len(set(player.drawn)) == len(player.drawn) > 2
    for step in (1, 2):
        folder = tmp_path / f"from{step}"
        shutil.copytree(tmp_path / "whole" / f"checkpoint-{step}", folder / f"checkpoint-{step}")
        again = trainer(kind, folder, DrawingPlayer(), **changes)
        again.train(resume_from_checkpoint="last")
        assert untimed(again.state.log_history)[step:4] == lines[step:4]
        for weight, value in whole.model.state_dict().items():
            assert torch.equal(again.model.state_dict()[weight], value), (step, weight)


@pytest.mark.slow
@pytest.mark.parametrize("name", RESUMED)
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path: Path, name: str) -> None:
    play(tmp_path / "whole", name)
    for kill_after in (1, 4):
        process = SERVER.Process(target=play, args=(tmp_path / "killed", name, kill_after))
        process.start()
        process.join(600)
        assert process.exitcode == -9
    play(tmp_path / "killed", name)
    found = compare_runs(tmp_path / "whole", tmp_path / "killed")
    assert found.first is None, str(found.first)


def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    """Counts of tokens and turns, groups and means are those of all processes."""
    common: dict[str, Any] = {"max_grad_norm": 0.0, "learning_rate": 2e-3}
    settings: list[dict[str, Any]] = [
        {**common, "kind": "grpo", "loss_type": "grpo"},
        {**common, "kind": "grpo", "loss_type": "dapo", "episode_as": "turns", "kl_weight": 0.1},
        {**common, "kind": "grpo", "loss_type": "dr_grpo", "scale_rewards": "batch"},
        {**common, "kind": "ppo", "num_ppo_epochs": 2, "max_steps": 2, "gamma": 0.9},
    ]
    dealt = json.dumps([{**s, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2} for s in settings])
    done = run_in_two_processes(HELPERS / "one_of_several_tools.py", [tmp_path, dealt])
    assert done.returncode == 0, done.stderr[-4000:]
    for index, changes in enumerate(settings):
        kept, kind = KeepGradients(), changes.pop("kind")
        one = {"per_device_train_batch_size": 16, **changes}
        run = trainer(kind, tmp_path / f"whole{index}", fixed_player(), [kept], **one)
        run.train()
        expected = untimed(run.state.log_history)
        assert expected[0]["turns"] > 1 and expected[0]["tool_calls"] > 0
        for rank in (0, 1):
            gradients = load_file(tmp_path / f"{index}-rank{rank}.safetensors")
            for name, gradient in kept.steps[-1].items():
                assert (gradients[name] - gradient).abs().max() < 1e-5, (changes, name)
            logs = untimed(json.loads((tmp_path / f"{index}-rank{rank}.json").read_text()))
            # PPO's groups are of the process, so their spread is too.
            left_out = {"reward_std", "groups_without_spread"} if kind == "ppo" else set()
            steps = changes.get("max_steps", 1)
            for line, own in zip(logs[:steps], expected[:steps], strict=True):
                assert {n: v for n, v in line.items() if n not in left_out} == pytest.approx(
                    {n: v for n, v in own.items() if n not in left_out}, abs=2e-5
                ), changes
