"""The closed form and its values as the trainer applies them."""

from pathlib import Path
from typing import Any

import pytest
import torch

import dllm_rl.training.trainer
from dllm_rl.decoding import Decoding
from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.terms.values import VALUE_DECAY, CellValues, totals_by_masked
from dllm_rl.training.update import objective_pass
from llm_rl.training.errors import CheckpointError
from tests.dllm_rl.helpers.tiny_training import (
    KeepGradients,
    arguments,
    logged,
    new_model,
    trainer,
    warm_model,
)

CLOSED: dict[str, Any] = {"objective": "closed", "num_generations": 1, "per_device_train_batch_size": 4}


@pytest.fixture
def rollouts(monkeypatch: pytest.MonkeyPatch) -> list[Rollout]:
    """The roll-outs that trainers make during a test."""
    kept: list[Rollout] = []

    def recording(*args: Any, **kwargs: Any) -> Rollout:
        kept.append(rollout(*args, **kwargs))
        return kept[-1]

    monkeypatch.setattr(dllm_rl.training.trainer, "rollout", recording)
    return kept


def test_values_are_the_moving_means_of_the_roll_outs_before(tmp_path: Path, rollouts: list[Rollout]) -> None:
    """Two roll-outs of two slots each, of groups of one; at the first nothing is worth anything, so f alone counts."""
    changes: dict[str, Any] = {
        "num_iterations": 2,
        "gradient_accumulation_steps": 2,
        "max_steps": 4,
    }
    run = trainer(tmp_path, **CLOSED, **changes)
    assert isinstance(run.values, CellValues)
    read = []
    step = run._train_on_buffer
    run._train_on_buffer = lambda *args: read.append(run.values.values.clone()) or step(*args)  # type: ignore[method-assign, union-attr, func-returns-value]
    run.train()
    assert len(rollouts) == 4 and len(read) == 8
    size = len(run.values.values)
    first, second = (
        sum(totals_by_masked(record, 0.95, size) for record in pair) for pair in (rollouts[:2], rollouts[2:])
    )
    means = first[0] / first[1]  # type: ignore[index]
    later = second[0] / second[1]  # type: ignore[index]
    assert int((~means.isnan()).sum()) > 4
    assert all(bool(values.isnan().all()) for values in read[:4])
    for values in read[4:]:
        torch.testing.assert_close(values, means, equal_nan=True)
    expected = torch.where(
        later.isnan(), means, torch.where(means.isnan(), later, VALUE_DECAY * means + (1 - VALUE_DECAY) * later)
    )
    torch.testing.assert_close(run.values.values, expected, equal_nan=True)
    assert logged(run, "objective_policy")[:2] == [0.0, 0.0] and min(logged(run, "objective_policy")[2:]) > 0.1
    assert not logged(run, "clip_frac") and max(logged(run, "approx_kl")) > 0.0


def test_both_terms_have_rates_of_their_own(tmp_path: Path, rollouts: list[Rollout]) -> None:
    gradients = KeepGradients()
    rates: dict[str, Any] = {"rl_learning_rate": 2e-3, "sft_learning_rate": 5e-4, "max_grad_norm": 0.0}
    run = trainer(tmp_path, warm_model().double(), callbacks=[gradients], max_steps=1, **CLOSED, **rates)
    assert isinstance(run.values, CellValues)
    run.values.values[1:] = torch.linspace(0.5, 3.0, len(run.values.values) - 1)
    values = run.values
    model, kept = warm_model().double(), []

    def backward(rl: torch.Tensor, sft: torch.Tensor) -> None:
        for term in (-rl, -sft):
            kept.append(torch.autograd.grad(term, list(model.parameters()), retain_graph=True))

    before = values.values.clone()
    run.train()
    values.values = before
    objective_pass(model, rollouts[0], backward, config=run.objective, values=values)
    torch.testing.assert_close(gradients.first[0], list(kept[0]), atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(gradients.second[0], list(kept[1]), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {"f_form": "log", "tokens_per_step": 3, "on_error": "correct", "ce_weight": 0.5},
        {"max_masked_per_pass": 40},
    ],
)
def test_it_raises_the_chance_that_decisions_are_right(
    tmp_path: Path, rollouts: list[Rollout], changes: dict[str, Any]
) -> None:
    """Solved puzzles among roll-outs before and after 30 steps, by the same policy."""
    run = trainer(tmp_path, max_steps=30, learning_rate=3e-3, reduction="mean", **CLOSED, **changes)
    run.train()
    batch = rollouts[0].problems
    how = Decoding("policy", policy=run.policy, on_error="end")
    solved = [
        rollout(model, batch, how, num_generations=32, generator=torch.Generator().manual_seed(0)).steps_before_error
        for model in (warm_model(), run.model)
    ]
    assert float(solved[1].double().mean()) > float(solved[0].double().mean()) + 0.5


def test_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    """Cut between the two updates on the second roll-out."""
    common = {**CLOSED, "max_steps": 6, "num_iterations": 2}
    whole = trainer(tmp_path / "whole", **common)
    whole.train()
    cut = trainer(tmp_path / "cut", save_strategy="steps", save_steps=3, **common)
    cut.train()
    resumed = trainer(tmp_path / "cut", **common)
    resumed.model.load_state_dict(new_model(seed=5).state_dict())
    resumed.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-3"))
    for name, parameter in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], parameter), name
    assert resumed.values is not None and whole.values is not None
    torch.testing.assert_close(resumed.values.values, whole.values.values, rtol=0, atol=0, equal_nan=True)
    assert logged(resumed, "loss") == logged(whole, "loss")


def test_a_sampled_run_may_go_on_in_closed_form_where_asked(tmp_path: Path) -> None:
    sampled = {**CLOSED, "objective": "sampled", "save_strategy": "steps", "save_steps": 1, "max_steps": 1}
    trainer(tmp_path, **sampled).train()
    changes = {**sampled, **CLOSED, "max_steps": 2}
    with pytest.raises(CheckpointError, match="objective is 'closed', was 'sampled'"):
        trainer(tmp_path, **changes).train(resume_from_checkpoint="last")
    run = trainer(tmp_path, resume_with_changes=True, **changes)
    run.train(resume_from_checkpoint="last")
    assert run.state.global_step == 2 and isinstance(run.values, CellValues)
    assert not bool(run.values.values.isnan().all())


def test_one_term_takes_one_rate(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"takes one learning rate, not 0\.001 and 0\.1; set policy_weight"):
        arguments(tmp_path, objective="closed", f_form="log", sft_learning_rate=0.1)
