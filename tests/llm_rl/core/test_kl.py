import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import approx_kl, chunked_kl_divergence, discounted_return_to_go, kl_divergence, rewards_with_kl

P = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
Q = torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64)


def exact(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return (p * (p / q).log()).sum()


def test_estimators_by_hand() -> None:
    # p(x) = 0.5, q(x) = 0.25, so d = −log 2 and q/p = 1/2.
    logp, logq = torch.tensor([0.5]).log(), torch.tensor([0.25]).log()
    log2 = math.log(2)
    assert approx_kl(logp, logq, estimator="k1").item() == pytest.approx(log2)
    assert approx_kl(logp, logq, estimator="k2").item() == pytest.approx(log2**2 / 2)
    assert approx_kl(logp, logq, estimator="k3").item() == pytest.approx(0.5 - 1 + log2)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_estimators_are_unbiased_for_samples_of_the_first_argument(estimator: str) -> None:
    expectation = (P * approx_kl(P.log(), Q.log(), estimator=estimator)).sum()  # type: ignore[arg-type]
    assert expectation.item() == pytest.approx(exact(P, Q).item())
    assert abs(exact(P, Q) - exact(Q, P)) > 1e-3  # the direction is visible


def test_expected_gradients_of_the_estimators_as_losses() -> None:
    logits = torch.tensor([0.3, -0.4, 0.9], dtype=torch.float64, requires_grad=True)

    def gradient(value: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(value, logits, retain_graph=True)[0]

    logp = logits.log_softmax(-1)
    p = logp.exp()
    expected = {"k1": torch.zeros(3).double(), "k2": gradient(exact(p, Q)), "k3": gradient(exact(Q, p))}
    for estimator, target in expected.items():
        loss = (p.detach() * approx_kl(logp, Q.log(), estimator=estimator)).sum()  # type: ignore[arg-type]
        assert torch.allclose(gradient(loss), target, atol=1e-12), estimator


def test_k3_is_accurate_for_small_steps_and_finite_for_large_ones() -> None:
    d = torch.tensor([1e-4])
    assert approx_kl(torch.zeros(1), d).item() == pytest.approx(5e-9, rel=0.05)
    assert torch.isfinite(approx_kl(torch.tensor([-500.0]), torch.tensor([0.0]))).all()


@given(st.floats(-15, 15))
def test_k2_and_k3_are_never_negative(difference: float) -> None:
    d = torch.tensor([difference])
    assert approx_kl(torch.zeros(1), d, estimator="k2").item() >= 0
    assert approx_kl(torch.zeros(1), d, estimator="k3").item() >= 0


def test_full_distribution_by_hand() -> None:
    # Logits need no normalization: any shift is allowed.
    assert kl_divergence(P.log() + 3, Q.log() - 7).item() == pytest.approx(exact(P, Q).item())
    assert kl_divergence(P.log(), P.log()).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("chunk_size", [1, 2, 100])
def test_chunked_equals_the_whole_with_gradients(chunk_size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden, other, head, other_head = (
        torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)
        for shape in ((2, 3, 4), (2, 3, 5), (7, 4), (7, 5))
    )
    leaves = (hidden, other, head, other_head)

    def gradients(value: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad((value * torch.arange(1, 7).view(2, 3)).sum(), leaves)

    whole = kl_divergence(hidden @ head.T / 0.7, other @ other_head.T / 0.7)
    chunked = chunked_kl_divergence(
        hidden, other, lambda h: h @ head.T, lambda h: h @ other_head.T, chunk_size=chunk_size, temperature=0.7
    )
    assert torch.allclose(chunked, whole)
    for ours, theirs in zip(gradients(chunked), gradients(whole), strict=True):
        assert torch.allclose(ours, theirs)


def test_impossible_outcomes() -> None:
    inf = math.inf
    p = torch.tensor([[0.0, 0.0, -inf], [0.0, 0.0, 0.0], [-inf, -inf, -inf]], requires_grad=True)
    q = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, -inf], [0.0, 0.0, 0.0]], requires_grad=True)
    # Row 0: ½·log((1/2)/(1/3))·2 = log 1.5. Row 1: q excludes an outcome of p. Row 2: nothing is possible.
    divergence = kl_divergence(p, q)
    assert divergence.tolist() == pytest.approx([math.log(1.5), inf, 0.0])
    divergence[0].backward()
    assert torch.isfinite(p.grad).all() and torch.isfinite(q.grad).all()
    assert q.grad[0].tolist() == pytest.approx([1 / 3 - 0.5, 1 / 3 - 0.5, 1 / 3])  # softmax(q) − p


def test_mask_equals_leaving_the_outcome_out() -> None:
    logits_p, logits_q = torch.randn(2, 5, 4).unbind(0)
    mask = torch.tensor([True, True, False, True]).expand(5, 4)
    kept = [0, 1, 3]
    without = kl_divergence(logits_p[:, kept], logits_q[:, kept])
    assert torch.allclose(kl_divergence(logits_p, logits_q, mask), without, atol=1e-6)


def test_gradient_of_the_full_divergence() -> None:
    logits = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    other = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(kl_divergence, (logits, other))


def test_bfloat16_is_promoted() -> None:
    a, b = torch.randn(3, 9).bfloat16(), torch.randn(3, 9).bfloat16()
    assert kl_divergence(a, b).dtype == torch.float32
    assert torch.equal(kl_divergence(a, b), kl_divergence(a.float(), b.float()))
    assert approx_kl(a, b).dtype == torch.float32


def test_the_logged_approx_kl_is_half_the_square() -> None:
    old, new = torch.randn(2, 5).unbind(0)
    assert torch.allclose(approx_kl(old, new, estimator="k2"), 0.5 * (new - old) ** 2)


def test_penalty_in_the_reward_by_hand() -> None:
    kl = torch.tensor([[1.0, -2.0, math.nan], [0.5, 0.5, 0.5], [1.0, 1.0, 1.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, False, True], [False, False, False]])
    rewards = rewards_with_kl(torch.tensor([10.0, 20.0, 30.0]), kl, mask, 0.1)
    assert rewards.flatten().tolist() == pytest.approx([-0.1, 10.2, 0, -0.05, 0, 19.95, 0, 0, 0])
    assert not rewards.requires_grad
    # Undiscounted, the whole completion's reward is the score minus the summed penalty.
    assert discounted_return_to_go(rewards, 1.0)[:2, 0].tolist() == pytest.approx([10.1, 19.9])


def test_full_distribution_penalty_is_the_mean_of_the_sampled_one() -> None:
    kl = kl_divergence(P.log(), Q.log()).reshape(1, 1)
    mask = torch.ones(1, 1, dtype=torch.bool)
    full = rewards_with_kl(torch.tensor([1.0]), kl, mask, 0.5)
    sampled = rewards_with_kl(torch.ones(3), (P / Q).log().unsqueeze(-1), mask.expand(3, 1), 0.5)
    assert full.item() == pytest.approx((P * sampled.squeeze(-1)).sum().item())
