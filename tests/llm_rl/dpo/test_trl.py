"""Loss and gradient of `DPOTrainer` beside those of TRL's, on the same rows."""

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import SHORT
from tests.llm_rl.helpers.tiny_dpo import chats, pairs, trainer
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer
from tests.llm_rl.helpers.watch import gradients_of

NAMES = ("rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies", "logps/chosen")


def trl_steps(folder: Path, model: Any, reference: Any, rows: list[dict[str, Any]], **settings: Any) -> Any:
    """TRL's trainer after one step on all rows, and the gradients of that step."""
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    settings |= {"max_steps": 1, "per_device_train_batch_size": len(rows), "max_grad_norm": 0.0}
    args = DPOConfig(str(folder), **SHORT, **settings, bf16=False, gradient_checkpointing=False)
    data = Dataset.from_list(rows)
    run = DPOTrainer(model, reference, args, train_dataset=data, processing_class=tokenizer())
    return run, gradients_of(run)[0]


@pytest.mark.parametrize("rows", [pairs(), chats(pairs())], ids=["texts", "messages"])
@pytest.mark.parametrize("loss_type", ["sigmoid", "ipo", "hinge"])
def test_loss_gradient_and_log_are_those_of_trl(tmp_path: Path, loss_type: str, rows: list[dict[str, Any]]) -> None:
    pytest.importorskip("trl", reason="the comparison needs TRL: pip install 'sudoku-dllm[trl]'")
    model, reference = new_model(), new_model(seed=5)
    settings = {"beta": 0.3, "loss_type": loss_type}
    trl, gradients = trl_steps(
        tmp_path / "trl", copy.deepcopy(model), copy.deepcopy(reference), rows, beta=0.3, loss_type=[loss_type]
    )
    settings |= {"given": {"ref_model": reference}, "per_device_train_batch_size": 8, "max_grad_norm": 0.0}
    run = trainer(tmp_path, model, data=rows, **settings)
    (found,) = gradients_of(run)
    for ours, theirs in zip(run.train_dataset.items, trl.train_dataset, strict=True):
        assert all(ours[name] == theirs[name] for name in ("prompt_ids", "chosen_ids", "rejected_ids"))
    line, other = run.state.log_history[0], trl.state.log_history[0]
    assert line["loss"] == pytest.approx(other["loss"], rel=1e-5, abs=1e-6)
    assert {name: line[name] for name in NAMES} == pytest.approx({name: other[name] for name in NAMES}, rel=1e-4)
    for name, gradient in found.items():
        assert (gradient - gradients[name]).abs().max() < 2e-6 * max(1.0, float(gradient.abs().max())), name
    assert max(float(gradient.abs().max()) for gradient in gradients.values()) > 1e-3
