import pytest
import torch
from torch import nn

from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.policy import PolicyConfig, StateScores, score_states
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.terms.divergence import Reference
from tests.dllm_rl.helpers.tiny_llada import make_model

POLICY = PolicyConfig(position_temperature=0.5)


def shift(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.ones_like(parameter))


def inputs(batch: PuzzleBatch) -> tuple:
    return batch.prompt_ids, batch.prompt_mask, batch.responses, batch.layout.mask_id, POLICY


def assert_equal(left: StateScores, right: StateScores) -> None:
    for one, other in zip(left, right, strict=True):
        assert torch.equal(one, other)


def test_a_copy_stays_as_it_was(model: LladaForMaskedLM, batch: PuzzleBatch) -> None:
    with torch.no_grad():
        before = score_states(model, *inputs(batch))
    reference = Reference(model.train())
    shift(model)
    scores = reference.score(*inputs(batch))
    assert_equal(scores, before)
    assert not scores.logits.requires_grad
    assert not any(parameter.requires_grad for parameter in reference.model.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters()) and model.training


def test_adapters_are_off_for_the_reference_alone(batch: PuzzleBatch) -> None:
    pytest.importorskip("peft")
    from llm_rl.training.lora import add_lora

    base = make_model()
    with torch.no_grad():
        before = score_states(base, *inputs(batch))
    adapted = add_lora(base, r=4, dropout=0.5)
    reference = Reference(adapted)
    assert reference.model is adapted
    shift(adapted)
    adapted.eval()
    with torch.no_grad():
        trained = score_states(adapted, *inputs(batch))
    assert float((trained.logits - before.logits).nan_to_num(0.0).abs().max()) > 1e-2
    adapted.train()
    assert_equal(reference.score(*inputs(batch)), before)
    assert adapted.training
    adapted.eval()
    with torch.no_grad():
        assert_equal(score_states(adapted, *inputs(batch)), trained)
    assert any(parameter.requires_grad for parameter in adapted.parameters())
