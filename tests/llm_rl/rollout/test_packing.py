from pathlib import Path
from typing import Any

import pytest
import torch

from llm_rl.rollout.data import RolloutBatch
from llm_rl.rollout.packing import packed_outputs, supports_packing
from llm_rl.rollout.scoring import PolicyScorer
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.small_models import SAMPLES, gemma2, gpt2
from tests.llm_rl.helpers.tiny_grpo import distinct_rows, new_model, tokenizer, trainer
from tests.llm_rl.helpers.watch import gradients_of


@pytest.mark.parametrize("model", [new_model(), gpt2().eval(), gemma2()], ids=["llama", "gpt2", "gemma2"])
def test_logits_are_those_of_each_row_alone(model: Any) -> None:
    batch = RolloutBatch.collate(SAMPLES, tokenizer().pad_token_id)
    ids = torch.cat([batch.prompt_ids, batch.completion_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.completion_mask], 1)
    found = packed_outputs(lambda **inputs: model(**inputs, use_cache=False).logits, ids, mask)
    for row, kept in enumerate(mask):
        assert (found[row][kept] - model(ids[row][kept][None]).logits[0]).abs().max() < 1e-5
        assert not found[row][~kept].any()
    padded, packed = (PolicyScorer(model, 0.8, padding_free=packs)(model, batch) for packs in (False, True))
    for one, other in zip(padded, packed, strict=True):
        assert (one - other)[batch.completion_mask].abs().max() < 1e-5


def test_a_step_without_padding_is_the_step_with_it(tmp_path: Path) -> None:
    steps = []
    for packs in (False, True):
        given = {"engine": FixedEngine(), "ref_model": new_model(seed=5)}
        changes = {"kl_weight": 0.1, "padding_free": packs, "max_steps": 2, "num_iterations": 2}
        steps.append(gradients_of(trainer(tmp_path, data=distinct_rows(), given=given, **changes)))
    for padded, packed in zip(*steps, strict=True):
        for name, gradient in padded.items():
            assert (packed[name] - gradient).abs().max() < 1e-6, name
    refused("choose one of them", lambda: trainer(tmp_path, padding_free=True, share_prompts=True))


def test_a_model_that_does_not_keep_rows_apart_is_refused(tmp_path: Path) -> None:
    model = new_model()
    base = model.model.forward

    def without_positions(*args: Any, position_ids: Any = None, **kwargs: Any) -> Any:
        return base(*args, **kwargs)

    model.model.forward = without_positions
    assert not supports_packing(model)
    with pytest.raises(ValueError, match="padding_free=True needs a model that takes position_ids"):
        trainer(tmp_path, model, padding_free=True)
