"""PPO's runs: killed and resumed, in two processes, its checkpoints."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from llm_rl.training.errors import CheckpointError
from sudoku_dllm.kill_test.comparison import compare_runs
from tests.helpers.warm_process import SERVER, run_in_two_processes
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.killable_ppo import play
from tests.llm_rl.helpers.tiny_grpo import KeepGradients, distinct_rows, least_at_two, untimed
from tests.llm_rl.helpers.tiny_ppo import trainer

HELPERS = Path(__file__).parents[1] / "helpers"


@pytest.mark.slow
@pytest.mark.parametrize("adapters", [False, True], ids=["value model", "adapters and head"])
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path: Path, adapters: bool) -> None:
    play(tmp_path / "whole", adapters=adapters)
    for kill_after in (2, 6):  # a roll-out serves four steps
        process = SERVER.Process(target=play, args=(tmp_path / "killed", kill_after, adapters))
        process.start()
        process.join(600)
        assert process.exitcode == -9
    play(tmp_path / "killed", adapters=adapters)
    found = compare_runs(tmp_path / "whole", tmp_path / "killed")
    assert found.first is None, str(found.first)
    values = [load_file(tmp_path / run / "final" / "value_function.safetensors") for run in ("whole", "killed")]
    assert values[0].keys() == values[1].keys() and values[0]["head.weight"].any()
    assert all(torch.equal(weight, values[1][name]) for name, weight in values[0].items())


def test_a_run_goes_on_within_a_roll_out(tmp_path: Path) -> None:
    """Of the value function a checkpoint holds the weights, of the roll-out values and advantages."""
    settings: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1, "max_steps": 3, "num_ppo_epochs": 2}
    settings["bootstrap_cut_off"] = True
    whole = trainer(tmp_path / "whole", **settings)
    whole.train()
    shutil.copytree(tmp_path / "whole" / "checkpoint-1", tmp_path / "again" / "checkpoint-1")
    again = trainer(tmp_path / "again", **settings)
    again.train(resume_from_checkpoint="last")
    assert untimed(again.state.log_history)[1:3] == untimed(whole.state.log_history)[1:3]
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name
    assert whole.value_function.head.weight.any()


def test_a_checkpoint_without_its_value_function_is_refused(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1}
    trainer(tmp_path, **settings).train()
    other = trainer(tmp_path, **settings, max_steps=2, value_function="model", resume_with_changes=True)
    with pytest.raises(CheckpointError, match="holds a value function of another kind or size"):
        other.train(resume_from_checkpoint="last")
    (tmp_path / "checkpoint-1" / "value_function.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"value_function\.safetensors"):
        trainer(tmp_path, **settings, max_steps=2).train(resume_from_checkpoint="last")


def test_the_best_value_function_is_found_again(tmp_path: Path) -> None:
    each_step = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1, "max_steps": 3}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_reward_mean", "greater_is_better": False}
    given = {"eval_dataset": distinct_rows(6)}
    run = trainer(tmp_path, learning_rate=1e-2, reward_funcs=least_at_two, given=given, **each_step, **best)
    run.train()
    assert run.state.best_model_checkpoint == str(tmp_path / "checkpoint-2")
    found = load_file(tmp_path / "checkpoint-2" / "value_function.safetensors")
    assert torch.equal(found["head.weight"], run.value_function.head.weight)


def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    """Whitening, explained variance and both losses are those of all; the second step has clipping."""
    common = {"max_grad_norm": 0.0, "num_ppo_epochs": 2, "max_steps": 2, "learning_rate": 2e-3}
    settings: list[dict[str, Any]] = [
        {**common, "kl_weight": 0.1, "gamma": 0.9},
        {**common, "value_function": "model", "cliprange_value": 0.01},
    ]
    dealt = json.dumps([{**s, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2} for s in settings])
    done = run_in_two_processes(HELPERS / "one_of_several_ppo.py", [tmp_path, dealt])
    assert done.returncode == 0, done.stderr[-4000:]
    for index, changes in enumerate(settings):
        kept = KeepGradients()
        given = {"engine": FixedEngine(), "callbacks": [kept]}
        run = trainer(tmp_path / "whole", data=distinct_rows(), given=given, per_device_train_batch_size=8, **changes)
        run.value_function.head.weight.data += 0.1
        run.train()
        expected = untimed(run.state.log_history)
        for rank in (0, 1):
            gradients = load_file(tmp_path / f"{index}-rank{rank}.safetensors")
            for name, gradient in kept.steps[1].items():
                assert (gradients[name] - gradient).abs().max() < 1e-5, (changes, name)
            logs = untimed(json.loads((tmp_path / f"{index}-rank{rank}.json").read_text()))
            for line, own in zip(logs[:2], expected[:2], strict=True):
                # The spread of rewards is that of each process's roll-out.
                left_out = {"reward_std", "groups_without_spread"}
                assert {n: v for n, v in line.items() if n not in left_out} == pytest.approx(
                    {n: v for n, v in own.items() if n not in left_out}, abs=2e-5
                )
