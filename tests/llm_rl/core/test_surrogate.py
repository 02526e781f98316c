import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import clipped_surrogate, importance_ratio, log_ratio

RATIOS = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.1, 1.0], dtype=torch.float64)
ADVANTAGES = torch.tensor([2.0, -2.0, 2.0, -2.0, 2.0, 0.0], dtype=torch.float64)


def test_all_branches_by_hand() -> None:
    logprobs = RATIOS.log().requires_grad_()
    objective, ratio, clipped, _ = clipped_surrogate(logprobs, torch.zeros_like(RATIOS), ADVANTAGES, 0.2, 0.3)
    # The minimum is pessimistic: only gains from leaving the range are clipped.
    assert objective.tolist() == pytest.approx([2.6, -3.0, 1.0, -1.6, 2.2, 0.0])
    assert clipped.tolist() == [True, False, False, True, False, False]
    assert torch.allclose(ratio, RATIOS)
    objective.sum().backward()
    # d(R·A)/d(log π) = R·A where it was not clipped, 0 where it was.
    assert logprobs.grad.tolist() == pytest.approx([0.0, -3.0, 1.0, 0.0, 2.2, 0.0])


def test_first_update_is_the_policy_gradient() -> None:
    logprobs = torch.tensor([-1.0, -3.0, -0.2], requires_grad=True)
    advantages = torch.tensor([1.0, -2.0, 0.5])
    output = clipped_surrogate(logprobs, logprobs.detach(), advantages, 0.2, 0.2)
    output.objective.sum().backward()
    assert output.ratio.tolist() == [1.0, 1.0, 1.0]
    assert not output.clipped.any()
    assert torch.equal(logprobs.grad, advantages)  # type: ignore[arg-type]


def test_a_range_of_zero_keeps_the_gradient_at_ratio_one() -> None:
    logprobs = torch.zeros(2, requires_grad=True)
    clipped_surrogate(logprobs, torch.zeros(2), torch.tensor([1.0, -1.0]), 0.0, 0.0).objective.sum().backward()
    assert logprobs.grad.tolist() == [1.0, -1.0]


def test_no_clipping() -> None:
    old = torch.zeros(6, dtype=torch.float64)
    objective, ratio, clipped, outside = clipped_surrogate(RATIOS.log() * 9, old, ADVANTAGES, 1.0, math.inf)
    assert torch.equal(objective, ratio * ADVANTAGES)
    assert not clipped.any() and not outside.any()


def test_outside_the_range_and_clipped_differ() -> None:
    ratios = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.5, 1.1], dtype=torch.float64)
    advantages = torch.tensor([1.0, -1.0, 1.0, -1.0, 0.0, 1.0], dtype=torch.float64)
    output = clipped_surrogate(ratios.log(), torch.zeros(6, dtype=torch.float64), advantages, 0.2, 0.2)
    assert output.outside.tolist() == [True, True, True, True, True, False]
    assert output.clipped.tolist() == [True, False, False, True, False, False]


@given(st.floats(-3, 3), st.floats(-5, 5), st.floats(0, 1), st.floats(0, 3))
def test_against_the_formula(difference: float, advantage: float, low: float, high: float) -> None:
    new, old = (torch.tensor([x], dtype=torch.float64) for x in (difference, 0.0))
    output = clipped_surrogate(new, old, torch.tensor([advantage], dtype=torch.float64), low, high)
    ratio = math.exp(difference)
    inside = max(1 - low, min(1 + high, ratio))
    assert output.objective.item() == pytest.approx(min(ratio * advantage, inside * advantage))


def test_one_advantage_a_sequence_is_shared() -> None:
    logprobs = torch.log(torch.tensor([[1.0, 1.1], [0.9, 1.0]]))
    output = clipped_surrogate(logprobs, torch.zeros(2, 2), torch.tensor([[2.0], [-1.0]]), 0.2, 0.2)
    assert torch.allclose(output.objective, torch.tensor([[2.0, 2.2], [-0.9, -1.0]]))


def test_log_ratio_is_clamped_and_stays_finite() -> None:
    new = torch.tensor([0.0, -1000.0, -3.0], requires_grad=True)
    old = torch.tensor([-1000.0, 0.0, -1.0])
    assert log_ratio(new, old).tolist() == [20.0, -20.0, -2.0]
    assert log_ratio(new, old, max_log_ratio=1.0).tolist() == [1.0, -1.0, -1.0]
    assert log_ratio(new, old, max_log_ratio=math.inf).tolist() == [1000.0, -1000.0, -2.0]
    ratio = importance_ratio(new, old)
    ratio.sum().backward()
    assert torch.isfinite(ratio).all()
    assert new.grad.tolist() == pytest.approx([0.0, 0.0, math.exp(-2)])


def test_bfloat16_is_promoted_before_subtracting() -> None:
    new, old = torch.tensor([-100.0]).bfloat16(), torch.tensor([-100.5]).bfloat16()
    ratio = importance_ratio(new, old)
    assert ratio.dtype == torch.float32
    assert ratio.item() == pytest.approx(math.exp(0.5))
    assert clipped_surrogate(new, old, torch.ones(1).bfloat16(), 0.2, 0.2).objective.dtype == torch.float32
