from pathlib import Path

import pytest
import torch

from llm_rl.grpo.arguments import GRPOArguments
from llm_rl.rollout.data import RolloutBatch, Sample
from llm_rl.rollout.generation import SamplingParams, TransformersEngine
from llm_rl.rollout.scoring import PolicyScorer, ReferenceModel
from llm_rl.rollout.shared_prompts import _told, group_by_prompt
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.small_models import SAMPLES, adapted, gemma2, gpt2
from tests.llm_rl.helpers.tiny_grpo import new_model, trainer, uneven
from tests.llm_rl.helpers.watch import trained

GROUPS = [
    Sample(sample.row, sample.prompt_ids, completion, truncated=True)
    for sample in SAMPLES
    for completion in (sample.completion_ids, [7, 3, 2, 9])
]
BATCH = RolloutBatch.collate([*GROUPS[::2], *GROUPS[1::2]], pad_id=0)


def test_rows_by_prompt() -> None:
    firsts, owners = group_by_prompt(BATCH.prompt_ids, BATCH.prompt_mask)
    assert firsts.tolist() == [0, 1, 2, 3] and owners.tolist() == [0, 1, 2, 3] * 2
    # A token that stands for padding elsewhere tells prompts apart.
    ids = torch.tensor([[0, 0, 5], [0, 0, 5], [0, 0, 5]])
    mask = torch.tensor([[False, True, True], [False, False, True], [False, True, True]])
    firsts, owners = group_by_prompt(ids, mask)
    assert firsts.tolist() == [0, 1] and owners.tolist() == [0, 1, 0]


@pytest.mark.parametrize("make", [new_model, gpt2, adapted])
def test_statistics_and_gradient_are_those_of_whole_rows(make) -> None:  # type: ignore[no-untyped-def]
    model = make().eval()
    found = []
    for share_prompts in (False, True):
        model.zero_grad()
        statistics = PolicyScorer(model, 0.7, share_prompts)(model, BATCH)
        of_loss = [part[BATCH.completion_mask] for part in statistics]
        (of_loss[0] * torch.linspace(-1, 1, len(of_loss[0]))).sum().backward()  # type: ignore[no-untyped-call]
        found.append([*of_loss, *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    for whole, shared in zip(*found, strict=True):
        torch.testing.assert_close(shared, whole, atol=1e-5, rtol=1e-4)


def read(batch: RolloutBatch, share_prompts: bool) -> list[torch.Size]:
    """The shapes of the ids that a model is given where a batch is scored."""
    model, shapes = new_model().eval(), list[torch.Size]()
    scorer = PolicyScorer(model, 1.0, share_prompts)
    model.get_input_embeddings().register_forward_hook(lambda _, ids, __: shapes.append(ids[0].shape))
    scorer(model, batch)
    return shapes


@pytest.mark.parametrize("share_prompts", [False, True])
def test_a_prompt_is_read_once(share_prompts: bool) -> None:
    prompts, completions = BATCH.prompt_ids.shape[1], BATCH.completion_ids.shape[1]
    assert sum(shape.numel() for shape in read(BATCH, share_prompts)) == (
        4 * (prompts - 1) + 8 * completions if share_prompts else 8 * (prompts + completions)
    )


def test_without_a_word_prompts_are_shared_where_the_model_allows_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = trainer(tmp_path)
    assert run.args.share_prompts is None and run.scorer.share_prompts and run.engine.share_prompts is None
    assert "A prompt is read anew" not in caplog.text
    caplog.clear()
    _told.clear()
    for _ in range(2):
        assert not PolicyScorer(gemma2(), 1.0, share_prompts=None).share_prompts
    engine = TransformersEngine(share_prompts=None)
    engine.load_weights(gemma2())
    assert [record.getMessage()[:40] for record in caplog.records] == ["A prompt is read anew for each of its co"]
    engine.generate([[5, 6], [5, 6]], SamplingParams(2, 1.0, (0,), 0))


def test_beside_what_it_does_not_go_with(tmp_path: Path) -> None:
    for beside in ({"padding_free": True}, {"gradient_checkpointing": True}):
        assert GRPOArguments(str(tmp_path), **beside).sharing_prompts is False  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="share_prompts"):
            GRPOArguments(str(tmp_path), share_prompts=True, **beside)  # type: ignore[arg-type]
    assert GRPOArguments(str(tmp_path)).sharing_prompts is None


def test_prompts_that_are_there_once_are_read_with_their_completions() -> None:
    single = RolloutBatch.collate(GROUPS[::2], pad_id=0)
    assert read(single, True) == [(4, single.prompt_ids.shape[1] + single.completion_ids.shape[1])]


def test_the_reference_shares_too() -> None:
    model = adapted().eval()
    for beta_is_full in (False, True):
        found = []
        for share_prompts in (False, True):
            reference = ReferenceModel(model, 1.0, share_prompts=share_prompts)
            if beta_is_full:
                values = reference.full_divergence(PolicyScorer(model, 1.0, share_prompts), model, BATCH)
            else:
                values = reference.logprobs(BATCH)
            found.append(values[BATCH.completion_mask])
        torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-4)


def test_a_step_of_grpo_is_the_same(tmp_path: Path) -> None:
    norms = []
    for share_prompts in (False, True):
        model, changes = new_model(dtype=torch.float64), {"max_steps": 2, "learning_rate": 1e-2}
        run = trained(trainer(tmp_path, model, reward_funcs=uneven, share_prompts=share_prompts, **changes))
        norms.append([line["grad_norm"] for line in run.state.log_history if "grad_norm" in line])
    assert norms[0] == pytest.approx(norms[1], rel=1e-6) and min(norms[0]) > 1e-3


def test_models_without_plain_keys_and_values_are_refused() -> None:
    refused(r"share_prompts=True needs a model whose cache", lambda: PolicyScorer(gemma2(), 1.0, share_prompts=True))
    refused(r"leave share_prompts out", lambda: TransformersEngine(share_prompts=True).load_weights(gemma2()))
    model = new_model()
    model.gradient_checkpointing_enable()
    refused(r"no gradient checkpointing", lambda: PolicyScorer(model, 1.0, share_prompts=True))
