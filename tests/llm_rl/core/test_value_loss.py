import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import explained_variance, generalized_advantage, masked_moments, value_loss, whiten


def test_half_the_square_has_the_error_as_gradient() -> None:
    values = torch.tensor([1.0, 5.0], requires_grad=True)
    loss, clipped = value_loss(values, torch.tensor([3.0, 4.5]))
    assert loss.tolist() == [2.0, 0.125] and not clipped.any()
    loss.sum().backward()
    assert values.grad.tolist() == [-2.0, 0.5]


def test_the_clip_by_hand() -> None:
    """From 1, by at most 1/2: too far towards the target, too far away from it, and within the range."""
    values = torch.tensor([2.0, -1.0, 1.25], requires_grad=True)
    targets, old = torch.tensor([3.0, 3.0, 3.0]), torch.ones(3)
    loss, clipped = value_loss(values, targets, old, clip_range=0.5)
    assert loss.tolist() == [(1.5 - 3) ** 2 / 2, 4**2 / 2, 1.75**2 / 2] and clipped.tolist() == [True, False, False]
    loss.sum().backward()
    assert values.grad.tolist() == [0.0, -4.0, -1.75]


@given(st.integers(0, 2**31), st.floats(0.01, 3))
def test_the_clipped_loss_is_the_larger_one(seed: int, clip_range: float) -> None:
    values, targets, old = torch.randn(3, 20, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = value_loss(values, targets, old, clip_range=clip_range)
    for index in range(20):
        v, t, o = (float(each[index]) for each in (values, targets, old))
        near = o + max(-clip_range, min(clip_range, v - o))
        assert found.loss[index].item() == pytest.approx(max((v - t) ** 2, (near - t) ** 2) / 2, abs=1e-12)
        assert bool(found.clipped[index]) == ((near - t) ** 2 > (v - t) ** 2)


def test_moments_do_not_depend_on_the_split() -> None:
    values, mask = torch.randn(6, 5) + 1e4, torch.rand(6, 5) < 0.5
    spoiled = values.masked_fill(~mask, torch.nan)
    whole = masked_moments([spoiled], [mask])
    parts = masked_moments([spoiled[:1], spoiled[1:, :3], spoiled[1:, 3:]], [mask[:1], mask[1:, :3], mask[1:, 3:]])
    for one, other in zip(whole, parts, strict=True):
        assert one.item() == pytest.approx(other.item(), rel=1e-9)
    kept = values[mask].double()
    assert whole.size == mask.sum() and whole.variance.item() == pytest.approx(kept.var(correction=0).item())
    nothing = masked_moments([values], [torch.zeros_like(mask)])
    assert [each.item() for each in nothing] == [0, 0, 0]


def test_whitened_by_hand() -> None:
    values, mask = torch.tensor([[1.0, 3.0, torch.nan], [5.0, 99.0, 7.0]]), torch.tensor([[1, 1, 0], [1, 0, 1]]).bool()
    found = whiten(values, mask, masked_moments([values], [mask]), eps=0.0)
    # mean 4, variance (9 + 1 + 1 + 9) / 4 = 5
    expected = torch.tensor([[-3.0, -1.0, 0.0], [1.0, 0.0, 3.0]]) / 5**0.5
    assert torch.allclose(found, expected)
    equal = torch.full((2, 3), 2.5)
    assert (whiten(equal, mask, masked_moments([equal], [mask])) == 0).all()


def test_explained_variance_by_hand() -> None:
    targets, mask = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.ones(4, dtype=torch.bool)

    def explained(values: list[float]) -> float:
        errors = targets - torch.tensor(values)
        return explained_variance(masked_moments([errors], [mask]), masked_moments([targets], [mask])).item()

    assert explained([1.0, 2.0, 3.0, 4.0]) == 1
    assert explained([7.0, 7.0, 7.0, 7.0]) == 0
    assert explained([2.0, 2.0, 3.0, 3.0]) == pytest.approx(1 - 0.5 / 1.25)  # errors −1, 0, 0, 1
    assert explained([4.0, 3.0, 2.0, 1.0]) == -3
    flat = masked_moments([torch.ones(4)], [mask])
    assert explained_variance(flat, flat).isnan()


def random_walks(count: int, longest: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """From the middle of the states 1 … 5 to one of two ends, of which the right one pays 1: states, rewards, mask."""
    generator = torch.Generator().manual_seed(0)
    steps = 2 * torch.randint(2, (count, longest), generator=generator) - 1
    places = 3 + torch.cat([torch.zeros(count, 1, dtype=torch.int64), steps.cumsum(1)], 1)
    over = ((places == 0) | (places == 6)).cummax(1).values
    mask, states = ~over[:, :-1], places.clamp(0, 6)[:, :-1]
    return states, (mask & (places[:, 1:] == 6)).double(), mask


@pytest.mark.parametrize("lam", [0.0, 0.8, 1.0])
def test_the_values_of_a_random_walk_are_found(lam: float) -> None:
    """V(i) = i / 6 (Sutton and Barto, example 6.2), from repeated fits to the returns that the last values give.

    Each fit to returns of λ = 0 leaves cos(π/6) of the error, so 0.0025 after 40. Drawn values deviate most at λ = 1:
    by 0.0228 with 1,500 walks and so by 0.0099 with 8,000, a fifth of the bound.
    """
    states, rewards, mask = random_walks(8000, 80)
    at = [mask & (states == place) for place in range(7)]
    values = torch.zeros(7, dtype=torch.float64)
    for _ in range(2 if lam == 1 else 40):
        returns = generalized_advantage(rewards, values[states], gamma=1.0, lam=lam, mask=mask).returns
        # The least square of a table is the mean of its targets, where the gradient of the loss is 0.
        values = torch.stack([returns[here].mean() if here.any() else values[0] for here in at]).requires_grad_()
        value_loss(values[states[mask]], returns[mask]).loss.mean().backward()
        assert values.grad.abs().max() < 1e-9
        values = values.detach()
    assert (values[1:6] - torch.arange(1, 6) / 6).abs().max() < 0.05
    exact = generalized_advantage(rewards, torch.arange(7).double()[states] / 6, gamma=1.0, lam=lam, mask=mask)
    assert all(abs(float(exact.advantages[here].mean())) < 0.05 for here in at[1:6])
