"""A run of any trainer that is killed and resumed ends as if nothing had happened."""

import json
from pathlib import Path
from typing import Any

import pytest

from sudoku_dllm.kill_test.comparison import compare_runs
from tests.helpers.warm_process import SERVER
from tests.llm_rl.helpers.runs import play

SAVED: dict[str, Any] = {
    "dtype": "float32", "own": True, "lr_scheduler_type": "cosine", "logging_steps": 3, "save_strategy": "steps",
    "save_steps": 1, "save_total_limit": 2,
}  # fmt: skip
ROLL_OUTS = {**SAVED, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "kl_weight": 0.1}
GRPO = {**ROLL_OUTS, "kind": "grpo", "num_iterations": 4, "dynamic_sampling_attempts": 1}
PPO = {**ROLL_OUTS, "kind": "ppo", "per_device_train_batch_size": 2, "num_ppo_epochs": 4, "max_steps": 7}
VAPOR = {**GRPO, "kind": "vapor", "max_steps": 7, "pref_loss_weight": 0.2}
DPO = {"kind": "dpo", "own": False, "max_steps": 5, "logging_steps": 2}
PAIRS = {"critic_pairs": 3, "critic_generations": 2}
RARO = {**SAVED, "kind": "raro", "max_steps": 5, "per_device_train_batch_size": 8, "num_iterations": 2, **PAIRS}
EXTRAS = {
    "ImportanceCorrection": {}, "RolloutAhead": {}, "EntropyBonus": {"coef": 0.1, "target": 9.0, "coef_delta": 0.02},
    "Chord": {"mu_peak": 0.4},
}  # fmt: skip
EXTENDED = {**ROLL_OUTS, "kind": "grpo", "num_iterations": 2, "max_steps": 6, "logging_steps": 1, "extensions": EXTRAS}
TOOLS = {**SAVED, "tools": True, "per_device_train_batch_size": 8, "max_steps": 5}
TALKS = {**TOOLS, "kind": "grpo", "num_iterations": 2}
RUNS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    # Eight prompts, two a roll-out of four steps: an epoch has sixteen steps, and log lines cross roll-outs. Killed
    # within a roll-out, at its end, at an epoch's end.
    "grpo": ({**GRPO, "kl_in": "reward", "max_steps": 10, "log_completions": True}, (3, 5, 9)),
    # Goes on between roll-outs, with one sampled ahead, and within one. No policy over so few tokens has the entropy:
    # the weight of the bonus rises with each roll-out.
    "grpo, extended": (EXTENDED, (3, 4)),
    # Tags that random tokens hold now and then.
    "vapor": ({**VAPOR, "max_completion_length": 8, "verifiable_term_split": ["e", "o"]}, (6,)),
    # Killed within a buffer: the last checkpoint is that of step 3.
    "raro": ({**RARO, "critic_warmup": 0.3, "replay_capacity": 9, "replay_mode": "reservoir", "kl_weight": 0.1}, (4,)),
    "ppo, value model": ({**PPO, "value_function": "model"}, (6,)),
    "ppo, adapters and head": ({**PPO, "lora": 2}, (6,)),
    # Before there is a checkpoint, and with some.
    "dpo": ({**SAVED, **DPO, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}, (1, 4)),
    # A roll-out serves two steps.
    "tools, grpo, a sample a turn": ({**TALKS, "episode_as": "turns", "kl_weight": 0.1}, (4,)),
    "tools, grpo, a sample a conversation": (TALKS, (4,)),
    "tools, ppo": ({**TOOLS, "kind": "ppo", "num_ppo_epochs": 2}, (4,)),
}
"""What each run does, and the steps after which it is killed."""


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path: Path, name: str) -> None:
    settings, killed_after = RUNS[name]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run = play(whole, settings)
    for step in killed_after:
        process = SERVER.Process(target=play, args=(killed, settings, step))
        process.start()
        process.join(600)
        assert process.exitcode == -9
    play(killed, settings)
    found = compare_runs(whole, killed)
    assert found.first is None, str(found.first)
    assert found.parts.keys() >= {"weights", "optimizer", "schedule", "random state", "log"}
    if name == "grpo":  # a checkpoint holds the roll-out while it is needed
        record = json.loads((whole / "checkpoint-9" / "progress_0.json").read_text())["items"]
        assert record["step"] == 2 and len(record["buffered_inputs"]["items"]) == 2
        assert found.parts["completions"].files
    if name == "grpo, extended":
        lines = run.state.log_history[:6]
        assert len({line["entropy_coef"] for line in lines}) > 2 and lines[4]["rollout_staleness"] == 2
    if name.startswith("tools"):
        assert any(line.get("tool_raised_frac", 0) > 0 for line in run.state.log_history)
    if name == "vapor":
        assert any(0 < line.get("verifiable_failure_frac", 0) < 1 for line in run.state.log_history)
    if name == "raro":
        assert run.replay.state_dict()["added"] > 12
