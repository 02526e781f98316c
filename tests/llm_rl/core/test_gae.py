import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import discounted_return_to_go, generalized_advantage


def test_by_hand() -> None:
    # γ = λ = 1/2. δ_2 = 4 − 3 = 1; δ_1 = 0 + 3/2 − 2 = −1/2; δ_0 = 1 + 2/2 − 1 = 1.
    rewards, values = torch.tensor([1.0, 0.0, 4.0]), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    output = generalized_advantage(rewards, values, gamma=0.5, lam=0.5)
    assert output.advantages.tolist() == [1 - 0.25 / 4, -0.25, 1.0]
    assert output.returns.tolist() == [1.9375, 1.75, 4.0]
    assert not output.advantages.requires_grad and not output.returns.requires_grad


def test_what_was_cut_off_goes_on_with_the_last_value() -> None:
    # As above with V = 6 behind the last step: δ_2 = 4 + 6/2 − 3 = 4, and γλ δ_2 more in each step before.
    rewards, values = torch.tensor([[1.0, 0.0, 4.0]] * 2), torch.tensor([[1.0, 2.0, 3.0]] * 2)
    output = generalized_advantage(rewards, values, gamma=0.5, lam=0.5, last_values=torch.tensor([6.0, 0.0]))
    assert output.advantages.tolist() == [[1 - 0.5 / 4 + 4 / 16, -0.5 + 4 / 4, 4.0], [0.9375, -0.25, 1.0]]


@given(st.integers(0, 2**31), st.integers(1, 7), st.floats(0, 1), st.floats(0, 1))
def test_against_the_double_sum(seed: int, steps: int, gamma: float, lam: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, 3, steps, generator=generator, dtype=torch.float64)
    mask = torch.rand(3, steps, generator=generator) < 0.6
    spoiled = [x.masked_fill(~mask, torch.nan) for x in (rewards, values)]
    last = torch.randn(3, generator=generator, dtype=torch.float64)
    output = generalized_advantage(*spoiled, gamma=gamma, lam=lam, mask=mask, last_values=last)
    for i in range(3):
        steps_there = [k for k in range(steps) if mask[i, k]]
        v = [values[i, k].item() for k in steps_there] + [last[i].item()]
        deltas = [rewards[i, k].item() + gamma * v[n + 1] - v[n] for n, k in enumerate(steps_there)]
        for n, k in enumerate(steps_there):
            expected = sum((gamma * lam) ** (m - n) * deltas[m] for m in range(n, len(deltas)))
            assert output.advantages[i, k].item() == pytest.approx(expected, abs=1e-9)
            assert output.returns[i, k].item() == pytest.approx(expected + v[n], abs=1e-9)
    assert (output.advantages[~mask] == 0).all() and (output.returns[~mask] == 0).all()


def test_lambda_one_is_the_return_minus_the_value() -> None:
    rewards, values = torch.randn(2, 4, 6).unbind(0)
    output = generalized_advantage(rewards, values, gamma=0.9, lam=1.0)
    assert torch.allclose(output.advantages, discounted_return_to_go(rewards, 0.9) - values, atol=1e-5)
