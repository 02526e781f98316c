import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import dpo_loss, pairwise_loss
from llm_rl.core.preference import PreferenceLoss


def sums(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


def test_by_hand() -> None:
    """Margins h = (−4 + 6) − (−5 + 5) = 2 and (−3 + 2) − (−1 + 3) = −3, β = ½."""
    tensors = sums(-4, -3), sums(-6, -2), sums(-5, -1), sums(-5, -3)
    found = dpo_loss(*tensors, beta=0.5)
    assert found.tolist() == pytest.approx([-log_sigmoid(1.0), -log_sigmoid(-1.5)])
    assert dpo_loss(*tensors, beta=0.5, loss_type="ipo").tolist() == [(2 - 1) ** 2, (-3 - 1) ** 2]
    assert dpo_loss(*tensors, beta=0.5, loss_type="hinge").tolist() == [0.0, 2.5]


@given(st.integers(0, 2**31), st.floats(0.01, 3))
def test_the_gradient_of_the_sigmoid_loss(seed: int, beta: float) -> None:
    """By the chosen log-probability: −β σ(−βh), by the rejected one its negative."""
    tensors = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 5
    chosen, rejected = tensors[0].clone().requires_grad_(), tensors[1].clone().requires_grad_()
    dpo_loss(chosen, rejected, tensors[2], tensors[3], beta=beta).sum().backward()
    h = tensors[0] - tensors[1] - tensors[2] + tensors[3]
    expected = -beta * torch.sigmoid(-beta * h)
    assert torch.allclose(chosen.grad, expected, atol=1e-12) and torch.allclose(rejected.grad, -expected, atol=1e-12)


def test_the_best_policy_of_two_completions_is_the_closed_form() -> None:
    """With preferences of Bradley and Terry the minimum is π ∝ π_ref exp(r / β), equation 4 of the paper."""
    reference, rewards, beta = torch.tensor([0.3, 0.7]).double().log(), sums(1.0, 0.2), 0.4
    prefers_first = torch.sigmoid(rewards[0] - rewards[1])
    logits = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-15)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        logps = logits.log_softmax(0)
        both = dpo_loss(logps, logps.flip(0), reference, reference.flip(0), beta=beta)
        loss = prefers_first * both[0] + (1 - prefers_first) * both[1]
        loss.backward()
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    best = (reference + rewards / beta).softmax(0)
    assert torch.allclose(logits.detach().softmax(0), best, atol=1e-6)


def test_half_precision_comes_in_and_far_margins_stay_finite() -> None:
    found = pairwise_loss(torch.tensor([-1e4, 1e4], dtype=torch.float16), beta=1.0)
    assert found.dtype == torch.float32 and found.tolist() == [1e4, 0.0]


def test_every_loss_falls_while_the_margin_rises_to_its_target() -> None:
    margins = torch.linspace(-5, 4.9, 50)
    kinds: list[PreferenceLoss] = ["sigmoid", "ipo", "hinge"]
    for kind in kinds:
        assert (pairwise_loss(margins, beta=0.1, loss_type=kind).diff() < 0).all()
