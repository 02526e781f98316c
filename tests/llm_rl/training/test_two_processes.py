"""Two processes take the steps of one: gradients, log lines and weights, of every trainer."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.warm_process import run_in_two_processes
from tests.llm_rl.helpers.runs import assert_steps_of_one, in_two_processes, record, told

Settings = dict[str, Any]
UNCLIPPED: Settings = {"max_grad_norm": 0.0, "learning_rate": 2e-3}
GRPO: Settings = {"kind": "grpo", **UNCLIPPED}
PARTLY: Settings = {"kl_weight": 0.1, "reward": "unless_cut"}
TURNS: Settings = {**GRPO, "learning_rate": 5e-3, "max_turns": 3}
TOOLS: Settings = {**UNCLIPPED, "kind": "grpo", "tools": True}
PPO: Settings = {"kind": "ppo", **UNCLIPPED, "max_steps": 2, "num_ppo_epochs": 2}
DPO: Settings = {"kind": "dpo", **UNCLIPPED, "max_steps": 2}
RARO: Settings = {"kind": "raro", **UNCLIPPED, "max_steps": 2, "kl_weight": 0.1, "max_tokens_per_batch": 57}
AHEAD: Settings = {**GRPO, "learning_rate": 5e-3, "max_steps": 3, "own": True}
EXTENDED: Settings = {"extensions": {"ImportanceCorrection": {}, "RolloutAhead": {}}}
ALONE, HALF = {"per_device_train_batch_size": 16}, {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
FEW, QUARTER = {"per_device_train_batch_size": 8}, {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
ONE_PASS = {"per_device_train_batch_size": 8, "expected_processes": 2}


def chord(size: int) -> Settings:
    """Answers beside each micro-batch, of which two processes have four."""
    return {"extensions": {"Chord": {"mu_peak": 0.4, "batch_size": size}}}


RUNS: dict[str, tuple[Settings, Settings, Settings]] = {
    **{
        f"grpo, {loss}": ({**GRPO, **PARTLY, "loss_type": loss, "scale_rewards": "batch"}, ALONE, HALF)
        for loss in ("grpo", "bnpo", "dr_grpo", "dapo")
    },
    "grpo, entropy bonus": ({**GRPO, **PARTLY, "extensions": {"EntropyBonus": {"coef": 0.1}}}, ALONE, HALF),
    "grpo, chord": ({**GRPO, "max_steps": 2}, {**ALONE, **chord(4)}, {**HALF, **chord(1)}),
    "grpo, turns": ({**TURNS, "loss_type": "grpo"}, ALONE, HALF),
    "grpo, conversations": ({**TURNS, "loss_type": "dapo", "episode_as": "sample", "kl_weight": 0.1}, ALONE, HALF),
    "grpo, ahead": (AHEAD, {**ALONE, "extensions": {"ImportanceCorrection": {}}}, {**HALF, **EXTENDED}),
    "tools, grpo": ({**TOOLS, "loss_type": "grpo"}, ALONE, HALF),
    "tools, turns": ({**TOOLS, "loss_type": "dapo", "episode_as": "turns", "kl_weight": 0.1}, ALONE, HALF),
    "tools, dr_grpo": ({**TOOLS, "loss_type": "dr_grpo", "scale_rewards": "batch"}, ALONE, HALF),
    "tools, ppo": ({**TOOLS, **PPO, "gamma": 0.9}, ALONE, HALF),
    "ppo": ({**PPO, "kl_weight": 0.1, "gamma": 0.9}, FEW, QUARTER),
    "ppo, value model": ({**PPO, "value_function": "model", "cliprange_value": 0.01}, FEW, QUARTER),
    "dpo": (DPO, FEW, QUARTER),
    "dpo, precomputed": (DPO, FEW, {**QUARTER, "precompute_ref_log_probs": True}),
    "vapor": ({"kind": "vapor", "kl_weight": 0.1, "pref_loss_weight": 0.4}, ALONE, ONE_PASS),
    "raro, separate": ({**RARO, "critic_batch": "separate", "critic_generations": 2}, {}, ONE_PASS),
    "raro, mixed": ({**RARO, "critic_batch": "mixed", "critic_generations": 2}, {}, ONE_PASS),
    "raro, warm": ({**RARO, "critic_batch": "mixed", "critic_warmup": 0.01, "critic_generations": 6}, {}, ONE_PASS),
}
"""Of each run what it does, what one process takes of it, and what each of two."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes did with all of `RUNS`, and with roll-outs ahead on one prompt alone."""
    folder = tmp_path_factory.mktemp("two")
    runs = {name: {**common, **dealt} for name, (common, _, dealt) in RUNS.items()}
    runs["alike"] = {**AHEAD, **HALF, **EXTENDED, "prompt": "red"}
    return in_two_processes(folder, runs)


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_take_the_steps_of_one(two: Path, tmp_path: Path, name: str) -> None:
    """Counts of tokens, turns and groups, means, whitening, clipping and explained variance are those of all."""
    common, alone, _ = RUNS[name]
    replay = {"replay": str(two / name)} if name == "grpo, ahead" else {}
    record(tmp_path / name, {**common, **alone, **replay})
    first, second, *_ = assert_steps_of_one(tmp_path / name, two / name, common)
    if "max_turns" in common or "tools" in common:
        assert first["turns"] > 1 and ("tools" not in common or first["tool_calls"] > 0)
    if common["kind"] == "raro":
        assert 0 < first["policy/too_long_frac"] < 0.5
    if name == "raro, warm":
        assert (first["critic/warmup"], second["critic/warmup"]) == (1, 0)


def test_processes_that_sample_ahead_draw_other_numbers_each(two: Path) -> None:
    for name in ("grpo, ahead", "alike"):
        for rank in (0, 1):
            assert [line.get("rollout_staleness") for line in told(two / name, rank)["logs"][:3]] == [0, 1, 1]
    for mine, other in zip(told(two / "alike")["samples"], told(two / "alike", 1)["samples"], strict=True):
        assert mine[0][0] == other[0][0] and [ids for _, ids, _ in mine] != [ids for _, ids, _ in other]


@pytest.mark.slow
def test_a_process_that_hangs_holds_the_others_for_ddp_timeout_alone(tmp_path: Path) -> None:
    done = run_in_two_processes(Path(__file__).parents[1] / "helpers" / "hangs.py", [tmp_path], timeout=240)
    assert done.returncode > 0, done.stderr[-4000:]
    assert "process 0 of 2" in done.stdout and "Timed out waiting 15000ms" in done.stderr
