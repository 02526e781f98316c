import pytest
import torch
from transformers import AutoModelForMaskedLM

import llm_rl.training.checked
from llm_rl.training.failure import load_failure
from tests.dllm_rl.helpers.tiny_training import trainer
from tests.dllm_rl.helpers.update_checks import run as objective
from tests.helpers.refusals import refused

BLOW_UP = {"optim": "sgd", "max_grad_norm": 0.0, "max_steps": 6}


def test_a_failed_update_can_be_looked_into(tmp_path) -> None:
    run = trainer(tmp_path, learning_rate=1e30, num_iterations=2, **BLOW_UP)
    refused(r"at step 1; lower the learning rate.*failed_step-1\)", lambda: run.train(), FloatingPointError)
    failure = load_failure(tmp_path / "failed_step-1", run.record_classes)
    assert failure.step == 1 and failure.arguments["num_iterations"] == 2 and "gradient norm" in failure.error
    weights = AutoModelForMaskedLM.from_pretrained(tmp_path / "failed_step-1" / "model")
    for name, value in weights.state_dict().items():
        torch.testing.assert_close(value, run.model.state_dict()[name], rtol=0, atol=0, equal_nan=True)
    assert failure.rollout.num_generations == 4
    assert torch.equal(failure.rollout.problems.responses, failure.inputs["problems"].responses)
    with pytest.raises(FloatingPointError):
        _, gradients = objective(weights.train(), failure.rollout, run.objective)
        if not torch.isfinite(torch.nn.utils.get_total_norm(gradients)):
            raise FloatingPointError


def test_a_failed_roll_out_leaves_its_puzzles(tmp_path) -> None:
    run = trainer(tmp_path, learning_rate=3e38, **BLOW_UP)
    refused(r"logits are not finite.*failed_step-1\)", lambda: run.train(), FloatingPointError)
    failure = load_failure(tmp_path / "failed_step-1", run.record_classes)
    assert failure.rollout is None and len(failure.inputs["problems"]) == 2
    assert not list(tmp_path.glob("partial*"))


def test_the_error_is_told_even_where_nothing_can_be_saved(tmp_path, monkeypatch) -> None:
    def full(*args: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(llm_rl.training.checked, "save_failure", full)
    with pytest.raises(FloatingPointError, match=r"logits are not finite.*could not be saved to .*No space left"):
        trainer(tmp_path, learning_rate=3e38, **BLOW_UP).train()
