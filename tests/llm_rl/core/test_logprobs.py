import math

import pytest
import torch

from llm_rl.core import entropy_from_logits, masked_log_softmax, next_token_logprobs, selective_log_softmax

INF = math.inf


def test_masked_log_softmax_by_hand() -> None:
    logits = torch.tensor([[0.0, math.log(3.0), math.nan], [5.0, 5.0, 5.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    logprobs = masked_log_softmax(logits, mask)
    assert logprobs[0].tolist() == pytest.approx([math.log(0.25), math.log(0.75), -INF])
    assert logprobs[1].tolist() == [-INF, -INF, -INF]
    logprobs[0, 0].backward()
    assert logits.grad[0].tolist() == pytest.approx([0.75, -0.75, 0.0])
    assert logits.grad[1].tolist() == [0.0, 0.0, 0.0]


def test_nan_logits_stay_visible() -> None:
    assert masked_log_softmax(torch.tensor([0.0, math.nan])).isnan().all()


def test_temperature() -> None:
    # p ∝ 1, 2 at temperature 1 is p ∝ 1, 4 at temperature 1/2.
    logits = torch.tensor([0.0, math.log(2.0)])
    assert masked_log_softmax(logits, temperature=0.5).exp().tolist() == pytest.approx([0.2, 0.8])
    index = torch.tensor(1)
    assert selective_log_softmax(logits, index, temperature=0.5).exp().item() == pytest.approx(0.8)
    expected = -(0.2 * math.log(0.2) + 0.8 * math.log(0.8))
    assert entropy_from_logits(logits, temperature=0.5).item() == pytest.approx(expected)


def test_entropy_by_hand() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, -INF, -INF], [1e4, 0.0, 0.0, 0.0], [-INF] * 4])
    assert entropy_from_logits(logits).tolist() == pytest.approx([math.log(4), math.log(2), 0.0, 0.0])
    mask = torch.tensor([True, True, True, False]).expand(4, 4)
    assert entropy_from_logits(logits, mask)[0].item() == pytest.approx(math.log(3))


def test_entropy_gradient() -> None:
    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(3, 5) < 0.6
    mask[0] = False
    assert torch.autograd.gradcheck(lambda x: entropy_from_logits(x, mask, temperature=0.7), (logits,))
    peaked = torch.tensor([[800.0, 0.0, -INF]], requires_grad=True)
    entropy_from_logits(peaked).sum().backward()
    assert torch.isfinite(peaked.grad).all()


def test_selective_log_softmax_matches_the_full_one() -> None:
    logits = (4 * torch.randn(2, 3, 7, dtype=torch.float64)).requires_grad_()
    index = torch.randint(7, (2, 3))
    expected = logits.log_softmax(-1).gather(-1, index.unsqueeze(-1)).squeeze(-1)
    computed = selective_log_softmax(logits, index)
    assert torch.allclose(computed, expected)
    weights = torch.randn(2, 3, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((weights * computed).sum(), logits)
    (expected_gradient,) = torch.autograd.grad((weights * expected).sum(), logits)
    assert torch.allclose(gradient, expected_gradient)


def test_selective_log_softmax_with_an_excluded_token() -> None:
    logits = torch.tensor([[0.0, 0.0, -INF]], requires_grad=True)
    logprob = selective_log_softmax(logits, torch.tensor([0]))
    logprob.sum().backward()
    assert logprob.item() == pytest.approx(-math.log(2))
    assert logits.grad.tolist() == [[0.5, -0.5, 0.0]]
    assert selective_log_softmax(logits, torch.tensor([2])).item() == -INF


def test_bfloat16_is_promoted_before_the_temperature() -> None:
    logits = torch.randn(64, 50).bfloat16()
    index = torch.randint(50, (64,))
    for temperature in (1.0, 0.6):
        half = selective_log_softmax(logits, index, temperature=temperature)
        assert half.dtype == torch.float32
        assert torch.equal(half, selective_log_softmax(logits.float(), index, temperature=temperature))
    assert masked_log_softmax(logits).dtype == entropy_from_logits(logits).dtype == torch.float32


def test_next_token_alignment_by_hand() -> None:
    # Position t puts 3/4 on the token 'prediction[t]' out of two.
    prediction = [1, 0, 1]
    logits = torch.zeros(1, 3, 2)
    for t, token in enumerate(prediction):
        logits[0, t, token] = math.log(3.0)
    logprobs = next_token_logprobs(logits, torch.tensor([[0, 1, 1]]))
    # Token 1 is 1, as predicted at 0; token 2 is 1 where position 1 said 0; the last position predicts nothing.
    assert logprobs[0].exp().tolist() == pytest.approx([0.75, 0.25])
