import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import clipped_surrogate, cut_weight_surrogate, leveled_log_ratio, soft_gate_surrogate

NUMBERS = st.floats(-2, 2, allow_subnormal=False)


def test_cut_weights_by_hand() -> None:
    logps = torch.tensor([math.log(0.5), math.log(0.3)], dtype=torch.float64, requires_grad=True)
    log_ratio = logps - torch.tensor([math.log(0.25), math.log(0.3)], dtype=torch.float64)  # R = 2 and 1
    out = cut_weight_surrogate(log_ratio, logps, torch.tensor([3.0, -2.0]), 0.5)
    assert out.objective.tolist() == pytest.approx([1.5 * 3 * math.log(0.5), -2 * math.log(0.3)])
    assert out.clipped.tolist() == [True, False] and out.ratio.tolist() == pytest.approx([2.0, 1.0])
    out.objective.sum().backward()
    assert logps.grad is not None and logps.grad.tolist() == pytest.approx([4.5, -2.0])  # weight · A, cut off or not


@given(NUMBERS, NUMBERS)
def test_the_soft_gate_by_hand(log_ratio: float, advantage: float) -> None:
    leaf = torch.tensor([log_ratio], dtype=torch.float64, requires_grad=True)
    out = soft_gate_surrogate(leaf, torch.tensor([advantage], dtype=torch.float64), 1.0, 1.05)
    tau, ratio = 1.0 if advantage > 0 else 1.05, math.exp(log_ratio)
    gate = 1 / (1 + math.exp(-tau * (ratio - 1)))
    assert out.objective.item() == pytest.approx(4 / tau * gate * advantage)
    out.objective.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.item() == pytest.approx(4 * gate * (1 - gate) * ratio * advantage, abs=1e-12)
    assert bool(out.outside) is (4 * gate * (1 - gate) < 0.5) and not out.clipped.any()


def test_all_surrogates_have_one_gradient_at_ratio_one() -> None:
    gradients = []
    for name in ("clipped", "cut", "soft"):
        logps = torch.tensor([-1.0, -2.0], dtype=torch.float64, requires_grad=True)
        zero, advantages = logps - logps.detach(), torch.tensor([0.7, -1.2], dtype=torch.float64)
        objective = {
            "clipped": lambda z=zero, a=advantages: clipped_surrogate(z, torch.zeros(2), a, 0.2, 0.2).objective,
            "cut": lambda z=zero, a=advantages, p=logps: cut_weight_surrogate(z, p, a, 0.2).objective,
            "soft": lambda z=zero, a=advantages: soft_gate_surrogate(z, a).objective,
        }[name]()
        objective.sum().backward()
        gradients.append(logps.grad)
    assert torch.allclose(gradients[0], gradients[1]) and torch.allclose(gradients[0], gradients[2])  # type: ignore[arg-type]


def test_gspo_token_has_the_sequences_value_and_each_tokens_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    old = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    new = (old + 0.3 * torch.randn(3, 5, generator=generator, dtype=torch.float64)).requires_grad_()
    mask = torch.arange(5) < torch.tensor([5, 2, 0]).unsqueeze(1)
    sequence = leveled_log_ratio(new, old, mask, level="sequence")
    token = leveled_log_ratio(new, old, mask, level="sequence_token")
    assert torch.allclose(sequence, token)
    weights = torch.rand(3, 5, generator=generator, dtype=torch.float64)
    (found,) = torch.autograd.grad((weights * token).sum(), new, retain_graph=True)
    assert torch.allclose(found, weights * mask)
    # With one weight a sequence both have one gradient (GSPO, section 4.3).
    (ours,) = torch.autograd.grad((weights[:, :1] * token.exp()).sum(), new, retain_graph=True)
    (theirs,) = torch.autograd.grad((weights[:, :1] * sequence.exp() * mask).sum(), new)
    assert torch.allclose(ours, theirs)


def test_bad_arguments() -> None:
    zeros = torch.zeros(2)
    with pytest.raises(ValueError, match=r"clip_high is -0\.1"):
        cut_weight_surrogate(zeros, zeros, zeros, -0.1)
    with pytest.raises(ValueError, match="logprobs has"):
        cut_weight_surrogate(zeros, torch.zeros(3), zeros, 0.1)
    with pytest.raises(ValueError, match=r"negative is 0\.0"):
        soft_gate_surrogate(zeros, zeros, 1.0, 0.0)
