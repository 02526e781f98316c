"""What all trainers on roll-outs share: runs that have ended, steps and weights that are not finite, other settings."""

import copy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

import llm_rl.training.checked
from llm_rl.rollout.generation import TransformersEngine
from llm_rl.training.errors import CheckpointError
from llm_rl.training.failure import load_failure
from llm_rl.training.finite import gradient_norm
from tests.helpers.refusals import refused
from tests.llm_rl.helpers import tiny_grpo, tiny_ppo, tiny_raro, tiny_vapor
from tests.llm_rl.helpers.tiny_grpo import SAVING, length, new_model, small_ids, untimed
from tests.llm_rl.helpers.watch import assert_same_weights, trained

TWO: dict[str, Any] = {**SAVING, "max_steps": 2, "save_total_limit": 1}
"""Steps, of which the last checkpoint is kept."""
each_trainer = pytest.mark.parametrize("tiny", [tiny_grpo, tiny_vapor, tiny_raro, tiny_ppo])


def no_step(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("a step was taken")


@each_trainer
def test_a_run_that_has_ended_takes_no_further_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: ModuleType
) -> None:
    first = tiny.trainer(tmp_path, **TWO)
    ended = first.train()
    again = tiny.trainer(tmp_path, **TWO)
    monkeypatch.setattr(type(again), "training_step", no_step)
    found = again.train(resume_from_checkpoint=True)
    assert (found.global_step, found.training_loss) == (2, ended.training_loss)
    assert untimed(again.state.log_history) == untimed(first.state.log_history)
    assert_same_weights(again.model, first.model)


@each_trainer
def test_a_gradient_that_is_not_finite_is_not_stepped_on_and_nothing_is_saved(tmp_path: Path, tiny: ModuleType) -> None:
    """It happens at the last step, where transformers would end without a word."""
    run = tiny.trainer(tmp_path, **TWO)
    weight, kept = run.model.lm_head.weight, []

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        if run.state.global_step == 1:
            kept.append(copy.deepcopy(run.model.state_dict()))
            return gradient * torch.inf
        return gradient

    weight.register_hook(spoil)
    refused(r"gradient norm (nan|inf) at step 1; lower .*failed_step-1\)", lambda: run.train(), FloatingPointError)
    assert all(torch.equal(value, kept[0][name]) for name, value in run.model.state_dict().items())
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-1"]
    failure = load_failure(tmp_path / "failed_step-1", run.record_classes)
    assert failure.step == 1 and failure.arguments["learning_rate"] == 1e-3
    assert all("prompt" in row for row in failure.inputs) and len(failure.rollout) >= 1
    AutoModelForCausalLM.from_pretrained(tmp_path / "failed_step-1" / "model")


def test_gradients_that_add_up_are_looked_at_once_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not finite in the first of three micro-batches is still found before the step."""
    run = tiny_grpo.trainer(tmp_path, **TWO, per_device_train_batch_size=4, gradient_accumulation_steps=3)
    looks: list[int] = []

    def counting(gradients: Any) -> torch.Tensor:
        looks.append(run._step)
        return gradient_norm(gradients)

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * torch.inf if (run.state.global_step, run._step) == (1, 0) else gradient

    monkeypatch.setattr(llm_rl.training.checked, "gradient_norm", counting)
    run.model.lm_head.weight.register_hook(spoil)
    refused(r"the loss is (?!nan|inf).* gradient norm (nan|inf) at step 1", lambda: run.train(), FloatingPointError)
    assert looks == [2, 2]
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-1"]


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_called_that_when_sampling(tmp_path: Path, value: float) -> None:
    model = new_model()
    run = tiny_grpo.trainer(tmp_path, model, given={"engine": TransformersEngine()})
    model.lm_head.weight.data[:] = value
    refused("logits are not finite, so that no token can be drawn; go back", lambda: run.train(), FloatingPointError)
    assert load_failure(tmp_path / "failed_step-0").rollout is None


def test_a_run_does_not_go_on_with_other_rewards_or_rows(tmp_path: Path) -> None:
    tiny_grpo.trainer(tmp_path, **TWO).train()
    other = tiny_grpo.rows()
    other[3] = {**other[3], "wanted": 0}
    for settings, message in (
        ({"reward_funcs": length}, r"reward_functions is \['length'\], was \['small_ids'\]"),
        ({"data": other}, r"train_dataset is '\w+', was '\w+'"),
        ({"clip_low": 0.3}, r"clip_low is 0.3, was 0.2"),
        ({"num_generations": 2}, r"num_generations is 2, was 4"),
    ):
        run = tiny_grpo.trainer(tmp_path, **{**TWO, "max_steps": 3, "reward_funcs": small_ids, **settings})
        with pytest.raises(CheckpointError, match=message):
            run.train(resume_from_checkpoint="last")


def test_a_roll_out_keeps_its_shape_while_it_is_in_use(tmp_path: Path) -> None:
    settings = {**TWO, "num_iterations": 2, "resume_with_changes": True}
    tiny_grpo.trainer(tmp_path, **{**settings, "max_steps": 1}).train()
    for changed, named in (
        ({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}, "gradient_accumulation_steps"),
        ({"num_iterations": 3}, "num_iterations"),
        ({"num_generations": 2}, "num_generations"),
    ):
        with pytest.raises(CheckpointError, match=rf"between the updates on a roll-out, whose shape .*'{named}'"):
            tiny_grpo.trainer(tmp_path, **{**settings, **changed}).train(resume_from_checkpoint="last")
    tiny_grpo.trainer(tmp_path, **settings).train(resume_from_checkpoint="last")
    changed = {**settings, "num_generations": 2, "num_iterations": 1, "max_steps": 4}
    run = trained(tiny_grpo.trainer(tmp_path, **changed), resume_from_checkpoint="last")
    assert run.state.global_step == 4


def test_an_evaluation_at_the_start_is_not_repeated_in_the_middle(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**TWO, "eval_on_start": True, "given": {"eval_dataset": tiny_grpo.rows(2)}}
    tiny_grpo.trainer(tmp_path, **{**settings, "max_steps": 1}).train()
    run = trained(tiny_grpo.trainer(tmp_path, **settings), resume_from_checkpoint="last")
    assert [line["step"] for line in run.state.log_history if "eval_reward_mean" in line] == [0]
