"""A run that was stopped and resumed ends bit for bit as one that was left alone, with every trainer and model."""

import pytest
import torch
from torch import nn
from transformers import TrainerCallback

from tests.dllm_rl.helpers.tiny_sums import sum_model
from tests.dllm_rl.helpers.tiny_training import new_model, sft_trainer, trainer, untimed, warm_model
from tests.dllm_rl.models.test_adapter_training import bert, bert_with_lora, dream, dream_with_lora
from tests.dllm_rl.test_task import sum_trainer
from tests.dllm_rl.training.test_lora import adapted


class StopAt(TrainerCallback):
    """Interrupts a run after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step == self.step


def own(seed: int) -> nn.Module:
    return new_model(seed) if seed else warm_model()


TWICE = {"num_iterations": 2}
COSINE = {"max_steps": 6, "lr_scheduler_type": "cosine", "warmup_steps": 2}
HALF = {"gradient_accumulation_steps": 2}
RATES = {"rl_learning_rate": 2e-3, "sft_learning_rate": 5e-4}
PARTS = {"max_steps": 6, "num_mini_batches": 3, **TWICE, "policy_weight": 0.0, "f_weight": 0.0}
OWN = {"kept_weight": 1.0, "ce_weight": 1.0, "ce_target": "own", "on_error": "guard", "num_generations": 1}
OTHERS = {**TWICE, "max_steps": 4, "gradient_checkpointing": True}
TAUGHT = {"max_steps": 4, "learning_rate": 1e-3}
RUNS = {
    "plain": (trainer, own, 3, COSINE),
    "in the second epoch": (trainer, own, 3, {**COSINE, "count": 4}),
    "between two epochs": (trainer, own, 3, {**COSINE, "count": 6}),
    "two updates": (trainer, own, 2, {**COSINE, **TWICE}),
    "between two updates on a roll-out": (trainer, own, 3, {**COSINE, **TWICE}),
    "two updates, two rates, accumulation": (trainer, own, 4, {**COSINE, **TWICE, **HALF, **RATES}),
    "options": (trainer, own, 5, {
        "max_steps": 8, "per_device_train_batch_size": 4, "advantage_baseline": "leave_one_out",
        "position_temperature_end": 0.5, "state_fraction": 0.8, "ce_weight": 0.3,
    }),
    # In the middle of a roll-out, with the parts that are left of it.
    "mini-batches": (trainer, own, 2, {**PARTS, "judged_weight": 1.0, "judged_draws": 4, "on_error": "redraw"}),
    "mini-batches of own decodes": (trainer, own, 2, {**PARTS, **OWN}),
    "adapters": (trainer, adapted, 2, {"max_steps": 4, "gradient_checkpointing": True, **HALF}),
    "sums": (sum_trainer, lambda seed: sum_model(), 3, {"max_steps": 4, **TWICE}),
    **{make.__name__: (trainer, make, 2, OTHERS) for make in (bert, dream, bert_with_lora, dream_with_lora)},
    **{f"supervised, {make.__name__}": (sft_trainer, make, 2, TAUGHT) for make in (bert, dream, bert_with_lora)},
    "supervised, prompts of two lengths": (sft_trainer, own, 3, {
        "max_steps": 6, "count": 4, "short": 4, "learning_rate": 1e-2, "lr_scheduler_type": "cosine",
    }),
}  # fmt: skip
"""The trainer, its model by a seed, the step after which it is stopped, and its settings."""


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_was_stopped_ends_bit_for_bit_as_one_left_alone(tmp_path, name) -> None:
    make, start, stop, settings = RUNS[name]
    whole = make(tmp_path / "whole", start(0), **{"save_strategy": "no", **settings})
    whole.train()
    saving = {**settings, "save_strategy": "steps", "save_steps": stop}
    make(tmp_path / "cut", start(0), callbacks=[StopAt(stop)], **saving).train()
    resumed = make(tmp_path / "cut", start(5), **saving)
    if make is sft_trainer:  # whose order of puzzles follows the seed that torch was given last
        torch.rand(9)
    else:
        torch.manual_seed(99)
    resumed.train(resume_from_checkpoint=str(tmp_path / "cut" / f"checkpoint-{stop}"))
    found = resumed.model.state_dict()
    assert all(torch.equal(found[name], value) for name, value in whole.model.state_dict().items())
    assert untimed(resumed.state.log_history) == untimed(whole.state.log_history)
    assert len(whole.state.log_history) == settings["max_steps"] + 1
