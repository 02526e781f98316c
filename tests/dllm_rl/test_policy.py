import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dllm_rl.policy import NEG_INF, PolicyConfig, annealed, log_margins, score_states, token_logprobs_at, two_best
from tests.dllm_rl.helpers.policy_reference import policy_at
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.helpers.refusals import refused

POLICY = PolicyConfig(position_temperature=0.4)


def test_annealing_is_linear_and_touches_nothing_else() -> None:
    start = PolicyConfig(position_temperature=1.0, token_temperature=0.7, margin_eps=1e-6)
    reached = [annealed(start, 0.2, fraction) for fraction in (0.0, 0.25, 1.0)]
    assert [config.position_temperature for config in reached] == pytest.approx([1.0, 0.8, 0.2])
    assert {(config.token_temperature, config.margin_eps) for config in reached} == {(0.7, 1e-6)}
    assert annealed(start, None, 0.5) == start


def test_margin_by_hand() -> None:
    best = two_best(torch.tensor([[0.6, 0.3, 0.1], [0.25, 0.25, 0.5]]).log())
    torch.testing.assert_close(log_margins(best, 1e-9), torch.tensor([math.log(2), math.log(2)]))
    torch.testing.assert_close(log_margins(best, 0.1)[0], torch.tensor(math.log(0.7 / 0.4)))


@settings(max_examples=60)
@given(st.lists(st.floats(-30, 30, width=32), min_size=2, max_size=8), st.sampled_from([1e-9, 1e-3]))
def test_margin_against_the_formula(logits, eps) -> None:
    first, second = torch.tensor(logits, dtype=torch.float64).softmax(0).sort(descending=True).values[:2].tolist()
    margin = float(log_margins(two_best(torch.tensor([[*logits, NEG_INF]])), eps))
    assert margin == pytest.approx(math.log((first + eps) / (second + eps)), abs=1e-5, rel=1e-5)


def test_margins_of_more_rows_than_are_taken_at_once() -> None:
    logits = torch.randn(30, 2**16)
    torch.testing.assert_close(two_best(logits), logits.log_softmax(1).topk(2).values)


def test_margin_gradient_reaches_both_probabilities() -> None:
    logits = torch.tensor([[2.0, 1.0, -1.0]], requires_grad=True)
    log_margins(two_best(logits), 1e-9).backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[1.0, -1.0, 0.0]]), atol=1e-6, rtol=0)


def test_epsilon_bounds_the_margin_and_stops_a_saturated_gradient() -> None:
    logits = torch.tensor([[100.0, 0.0, -5.0]], requires_grad=True)
    margin = log_margins(two_best(logits), 1e-9)
    assert float(margin.detach()) == pytest.approx(-math.log(1e-9), rel=1e-5)
    margin.backward()
    assert bool(torch.isfinite(logits.grad).all()) and float(logits.grad.abs().max()) < 1e-6


def scores_in(model, batch):
    """Of the problems as they are given."""
    return score_states(model, batch.prompt_ids, batch.prompt_mask, batch.responses, batch.mask_id, POLICY)


def test_scores_agree_with_the_definition_one_state_at_a_time(model, batch, puzzles) -> None:
    """Prompts of the batch are padded; those of the reference are not. In float32, as models are."""
    model = model.float()
    assert not batch.prompt_mask.all()
    with torch.no_grad():
        scores = scores_in(model, batch)
    assert scores.logits.dtype == scores.margins.dtype == scores.position_logprobs.dtype == torch.float32
    for index, puzzle in enumerate(puzzles[: len(batch)]):
        with torch.no_grad():
            expected = policy_at(model, puzzle.token_ids, puzzle, POLICY)
        for ell in range(batch.responses.shape[1]):
            if ell not in expected.position:
                assert scores.row_of[index, ell] == -1
                assert scores.margins[index, ell] == scores.position_logprobs[index, ell] == NEG_INF
                continue
            assert float(scores.margins[index, ell]) == pytest.approx(float(expected.margin[ell]), abs=1e-4)
            assert float(scores.position_logprobs[index, ell]) == pytest.approx(float(expected.position[ell]), abs=1e-4)
            tokens = torch.arange(scores.logits.shape[1])
            state, place = torch.full_like(tokens, index), torch.full_like(tokens, ell)
            got = token_logprobs_at(scores, state, place, tokens, POLICY.token_temperature)
            assert got[batch.mask_id] == NEG_INF
            torch.testing.assert_close(got.double(), expected.token[ell], atol=1e-4, rtol=0)


def test_the_mask_token_is_excluded_even_when_the_model_prefers_it(batch) -> None:
    model = make_model()
    with torch.no_grad():
        head = model.get_output_embeddings().weight
        head[batch.mask_id] = 50 * head[batch.layout.digit_ids[0]]
    scores = scores_in(model, batch)
    assert bool((scores.logits[:, batch.mask_id] == NEG_INF).all())
    assert bool(torch.isfinite(scores.margins[scores.row_of >= 0]).all())


def test_half_precision_bodies_give_scores_in_fp32(batch) -> None:
    scores = scores_in(make_model().to(torch.bfloat16), batch)
    assert scores.logits.dtype == scores.position_logprobs.dtype == torch.float32
    torch.testing.assert_close(scores.position_logprobs.exp().sum(1), torch.ones(len(batch)))


def test_logits_that_are_not_finite_are_refused(model, batch) -> None:
    with torch.no_grad():
        model.get_output_embeddings().weight[5, 0] = math.nan
    refused("not finite", lambda: scores_in(model, batch), FloatingPointError)


def test_a_finished_state_is_refused(model, batch) -> None:
    batch.responses[1] = batch.layout.digit_ids[0]
    refused("state 1 has no masked position", lambda: scores_in(model, batch))
