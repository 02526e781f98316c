import pytest
import torch

from llm_rl.core import MetricAccumulator
from llm_rl.rollout.spans import Rule
from llm_rl.vapor import VaporConfig, vapor_loss, vapor_terms
from llm_rl.vapor.batches import Response, VaporSample, collate_pairs, find_part, place_response, preference_pair
from llm_rl.vapor.monitors import record_preferences, record_vapor
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.tiny_vapor import tag_tokenizer
from tests.llm_rl.helpers.vapor_batches import random_batch


def test_terms_that_are_recorded_are_the_parts_of_the_loss() -> None:
    config, batch, metrics = VaporConfig(beta=0.4, ratio_level="token"), random_batch(6, 1), MetricAccumulator()
    terms = vapor_terms(batch, config)
    record_vapor(metrics, terms, batch, torch.full(batch.spans.shape, 0.5))
    record_preferences(metrics, batch.pair)
    found, loss = metrics.compute(), vapor_loss(terms, batch, config)
    assert found["surrogate"] == pytest.approx(loss.surrogate.item())
    assert found["kl"] == pytest.approx(loss.kl.item())
    assert found["preference_loss"] == pytest.approx(loss.preference.item())
    assert found["entropy"] == 0.5
    inside = (batch.logprobs - batch.ref_logprobs).exp()[batch.spans]
    assert found["verifiable_ratio"] == pytest.approx(inside.mean().item())
    assert found["preference_failure_frac"] == pytest.approx(1 - batch.pair.found.double().mean().item())
    margins = terms.preference[terms.pair_found] / config.beta
    assert found["preference_margin"] == pytest.approx(margins.mean().item())
    assert found["preference_accuracy"] == pytest.approx((margins > 0).double().mean().item())
    with pytest.raises(ValueError, match="old_logprobs is None"):
        record_vapor(metrics, terms, batch._replace(old_logprobs=None), torch.zeros(batch.spans.shape))


def test_containment_loses_the_token_that_reaches_beyond_the_tag() -> None:
    ids = tag_tokenizer()("<REASONING>red</REASONING>>red")["input_ids"]
    tags = ("<REASONING>", "</REASONING>")
    rules: tuple[Rule, Rule] = ("overlap", "containment")
    (overlap, text), (contained, same) = (find_part(ids, tag_tokenizer(), tags, rule) for rule in rules)
    assert overlap is not None and contained is not None
    assert text == same == "<REASONING>red</REASONING>"
    assert tag_tokenizer().decode(ids[slice(*overlap)]).startswith(text)
    assert overlap[0] == contained[0] and overlap[1] == contained[1] + 1
    assert find_part([], tag_tokenizer(), tags) == (None, "")


def test_where_responses_stand() -> None:
    sample = VaporSample({"prompt": "p"}, [1, 2], [3, 4, 5, 6], False, span=(1, 3))
    pair = (Response([10, 11, 12, 13], (1, 3)), Response([20, 21], (0, 2)))
    static = place_response(sample, pair, 0, "static")
    assert (static.prompt_ids, static.completion_ids, static.span) == ([1, 2], [10, 11, 12], (1, 3))
    generated = place_response(sample, pair, 0, "generated")
    assert (generated.prompt_ids, generated.completion_ids, generated.span) == ([1, 2, 3, 4, 5], [11, 12], (0, 2))
    failed = VaporSample({"prompt": "p"}, [1, 2], [3], False)
    for empty in (
        place_response(failed, pair, 0, "generated"),
        place_response(sample, (pair[0], Response([20], None)), 0, "static"),
        place_response(sample, (Response([20], None), pair[1]), 1, "static"),
    ):
        assert empty.completion_ids == [] and empty.span is None
    batch = collate_pairs([sample], [pair], "static", 0)
    assert batch.completion_ids.tolist() == [[10, 11, 12], [20, 21, 0]]
    assert batch.loss_mask.tolist() == [[False, True, True], [True, True, False]]
    refused("no ref_per_token_logps", lambda: preference_pair(batch, torch.zeros(2, 3), 1))
    refused("exceeds the model's 4 positions", lambda: collate_pairs([sample], [pair], "static", 0, room=4))
