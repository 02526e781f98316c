import pytest
import torch

from llm_rl.rollout.data import RolloutBatch
from llm_rl.rollout.scoring import PolicyScorer, ReferenceModel, causal_model
from tests.llm_rl.helpers.grpo_reference import token_logps
from tests.llm_rl.helpers.small_models import SAMPLES, adapted, gemma2, gpt2
from tests.llm_rl.helpers.tiny_grpo import new_model


@pytest.mark.parametrize(("make", "plain"), [(new_model, True), (gpt2, True), (gemma2, False)])
def test_padding_changes_nothing_for_any_kind_of_model(make, plain):  # type: ignore[no-untyped-def]
    model = make().eval()
    scorer = PolicyScorer(model, temperature=0.7)
    assert scorer.plain_head == plain
    batch = RolloutBatch.collate(SAMPLES, pad_id=0)
    logprobs, entropy = scorer(model, batch)
    assert logprobs.shape == (4, 6)
    for row, sample in enumerate(SAMPLES):
        count = len(sample.completion_ids)
        logits = model(torch.tensor([sample.prompt_ids + sample.completion_ids])).logits[0].double()
        full = (logits[len(sample.prompt_ids) - 1 :][:count] / 0.7).log_softmax(-1)
        expected = full.gather(1, torch.tensor(sample.completion_ids, dtype=torch.int64)[:, None]).flatten()
        torch.testing.assert_close(logprobs[row, :count].double(), expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(entropy[row, :count].double(), -(full.exp() * full).sum(-1), atol=1e-5, rtol=0)


def test_half_precision_and_training_mode_survive() -> None:
    model = new_model(dtype=torch.bfloat16).train()
    scorer = PolicyScorer(model, 1.0)
    assert scorer.plain_head and model.training
    logprobs, _ = scorer(model, RolloutBatch.collate(SAMPLES, pad_id=0))
    assert logprobs.dtype == torch.float32 and logprobs.isfinite().all()


def test_an_adapted_head_is_asked_for_its_logits() -> None:
    model = adapted(2, "lm_head")
    scorer = PolicyScorer(model, 1.0)
    assert not scorer.plain_head
    batch = RolloutBatch.collate(SAMPLES[:1], pad_id=0)
    torch.testing.assert_close(scorer(model, batch).logprobs[0], token_logps(model, SAMPLES[0], 1.0), atol=1e-5, rtol=0)


def test_references() -> None:
    batch = RolloutBatch.collate(SAMPLES, pad_id=0)
    model = new_model()
    reference = ReferenceModel(model, 1.0)
    before = PolicyScorer(model, 1.0)(model, batch).logprobs.detach()
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
    assert torch.equal(reference.logprobs(batch), before)
    assert not any(parameter.requires_grad for parameter in reference.model.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())
    tuned = adapted().train()
    reference = ReferenceModel(tuned, 1.0, adapters="base")
    assert reference.model is tuned and causal_model(tuned) is tuned.get_base_model()
    assert torch.equal(reference.logprobs(batch), before) and tuned.training
    start = PolicyScorer(tuned, 1.0)(tuned.eval(), batch).logprobs.detach()
    assert not torch.equal(start, before)
    reference = ReferenceModel(tuned, 1.0)
    kept = {name: value for name, value in tuned.named_parameters() if value.requires_grad}
    with torch.no_grad():
        for value in kept.values():
            value.mul_(3)
    assert torch.equal(reference.logprobs(batch), start)
    assert not torch.equal(PolicyScorer(tuned, 1.0)(tuned, batch).logprobs, start)
    for name, value in tuned.named_parameters():
        assert name not in kept or value is kept[name]


@pytest.mark.parametrize("make", [new_model, gemma2, adapted])
def test_full_divergence_and_its_gradient(make) -> None:  # type: ignore[no-untyped-def]
    """Against whole logits, for a plain head, one that is more, and adapters that are switched off."""
    model = make().eval()
    reference = ReferenceModel(model, 0.7, adapters="base" if make is adapted else "start")
    plain = model.get_base_model() if make is adapted else reference.model
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if make is not adapted:
        with torch.no_grad():
            for index, weight in enumerate(weights):
                weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(index))
    batch = RolloutBatch.collate(SAMPLES, pad_id=0)
    found = reference.full_divergence(PolicyScorer(model, 0.7), model, batch)
    total = found.masked_fill(~batch.completion_mask, 0.0).sum()
    expected = torch.zeros(())
    for sample in SAMPLES:
        ids = torch.tensor([sample.prompt_ids + sample.completion_ids])
        rows = slice(len(sample.prompt_ids) - 1, len(sample.prompt_ids) - 1 + len(sample.completion_ids))
        with torch.no_grad(), model.disable_adapter() if make is adapted else torch.no_grad():
            ref = (plain(ids).logits[0, rows] / 0.7).log_softmax(-1)
        new = (model(ids).logits[0, rows] / 0.7).log_softmax(-1)
        expected = expected + (new.exp() * (new - ref)).sum()
    torch.testing.assert_close(total, expected, atol=1e-4, rtol=1e-4)
    assert total > 0.1
    ours, theirs = (torch.autograd.grad(value, weights, allow_unused=True) for value in (total, expected))
    for one, other in zip(ours, theirs, strict=True):
        if other is not None:
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)
