import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_rl.core import (
    discounted_return_to_go,
    group_relative_advantage,
    group_statistics,
    groups_without_spread,
    return_after_action,
)

REWARDS = st.integers(1, 8).flatmap(
    lambda k: st.lists(st.lists(st.floats(-2, 2, width=32), min_size=k, max_size=k), min_size=1, max_size=4)
)


def test_return_to_go_by_hand() -> None:
    # G_2 = 4, G_1 = 2 + 0.5·4 = 4, G_0 = 1 + 0.5·4 = 3
    returns = discounted_return_to_go(torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 8.0]]), 0.5)
    assert returns.tolist() == [[3.0, 4.0, 4.0], [2.0, 4.0, 8.0]]


def test_return_after_action_by_hand() -> None:
    # The first state's own reward (1) is credited to no action; the last action has nothing after it.
    assert return_after_action(torch.tensor([1.0, 2.0, 4.0]), 0.5).tolist() == [4.0, 4.0, 0.0]
    assert return_after_action(torch.tensor([[7.0]]), 0.5).tolist() == [[0.0]]


def test_return_after_action_is_the_sources_sum_in_diffusion_time() -> None:
    # Source, with T' = K: r(τ, t) = Σ_{i=1..t} γ^{t−i} f(τ_i), τ_t = s_{K−t}; action k leads to τ_t with t = K − k − 1.
    k_total, gamma = 5, 0.9
    f = torch.rand(k_total, dtype=torch.float64)
    credited = return_after_action(f, gamma)
    for k in range(k_total):
        t = k_total - k - 1
        expected = sum(gamma ** (t - i) * f[k_total - i].item() for i in range(1, t + 1))
        assert credited[k].item() == pytest.approx(expected, abs=1e-12)


@given(REWARDS, st.floats(0, 1))
def test_return_to_go_against_the_double_sum(rewards: list[list[float]], gamma: float) -> None:
    returns = discounted_return_to_go(torch.tensor(rewards, dtype=torch.float64), gamma)
    for row, computed in zip(rewards, returns.tolist(), strict=True):
        expected = [sum(gamma ** (j - k) * row[j] for j in range(k, len(row))) for k in range(len(row))]
        assert computed == pytest.approx(expected, abs=1e-9)


def test_returns_at_the_ends_of_gamma() -> None:
    rewards = torch.tensor([1.0, 2.0, 4.0])
    assert discounted_return_to_go(rewards, 0.0).tolist() == [1.0, 2.0, 4.0]
    assert discounted_return_to_go(rewards, 1.0).tolist() == [7.0, 6.0, 4.0]


def test_return_gradient_is_the_discount() -> None:
    rewards = torch.zeros(4, requires_grad=True)
    discounted_return_to_go(rewards, 0.5)[0].backward()
    assert rewards.grad.tolist() == [1.0, 0.5, 0.25, 0.125]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64])
def test_low_precision_is_promoted(dtype: torch.dtype) -> None:
    rewards = torch.ones(1, 300, dtype=dtype)
    assert discounted_return_to_go(rewards, 1.0).dtype == torch.float32
    assert discounted_return_to_go(rewards, 1.0)[0, 0] == 300  # bfloat16 sums of ones stop at 256
    assert discounted_return_to_go(rewards.double(), 1.0).dtype == torch.float64
    assert group_relative_advantage(torch.tensor([[0, 1]]).to(dtype)).dtype == torch.float32


def test_group_statistics_by_hand() -> None:
    values = torch.tensor([[[2.0, 5.0], [4.0, 7.0], [9.0, 9.0]]])
    mask = torch.tensor([[[True, False], [True, False], [True, False]]])
    mean, std, size = group_statistics(values, mask)
    assert mean.tolist() == [[[5.0, 0.0]]]
    assert std.flatten().tolist() == pytest.approx([math.sqrt(26 / 3), 0.0])  # deviations −3, −1, 4
    assert size.tolist() == [[[3, 0]]]


def test_advantage_by_hand_per_step_and_group() -> None:
    # Group 1: step 0 has returns 1, 3 (mean 2, std 1); step 1 has 0, 10. Group 2 is apart.
    returns = torch.tensor([[[1.0, 0.0], [3.0, 10.0]], [[5.0, 2.0], [5.0, 4.0]]])
    advantages = group_relative_advantage(returns)
    assert advantages.tolist() == [[[-1.0, -1.0], [1.0, 1.0]], [[0.0, -1.0], [0.0, 1.0]]]


@pytest.mark.parametrize("group", [2, 4, 16])
def test_a_lone_survivor_gets_the_root_of_the_others(group: int) -> None:
    returns = torch.zeros(1, group)
    returns[0, 1] = 0.3
    advantages = group_relative_advantage(returns)[0]
    assert advantages[1].item() == pytest.approx(math.sqrt(group - 1), rel=1e-5)
    assert advantages[0].item() == pytest.approx(-1 / math.sqrt(group - 1), rel=1e-5)


def test_std_eps_and_no_scale_by_hand() -> None:
    returns = torch.tensor([[1.0, 3.0]])
    assert group_relative_advantage(returns, std_eps=1.0).tolist() == [[-0.5, 0.5]]
    assert group_relative_advantage(returns, scale="none").tolist() == [[-1.0, 1.0]]


def test_leave_one_out_by_hand() -> None:
    # Means of the others: (2+6)/2 = 4, (1+6)/2 = 3.5, (1+2)/2 = 1.5
    returns = torch.tensor([[1.0, 2.0, 6.0]], dtype=torch.float64)
    advantages = group_relative_advantage(returns, baseline="leave_one_out", scale="none")
    assert advantages[0].tolist() == pytest.approx([-3.0, -1.5, 4.5])
    scaled = group_relative_advantage(returns, baseline="leave_one_out")
    assert scaled[0].tolist() == pytest.approx([a / math.sqrt(14 / 3) for a in (-3.0, -1.5, 4.5)])


@pytest.mark.parametrize("value", [0.0, 0.1, 17.3, 1e4])
@pytest.mark.parametrize("group", [1, 3, 7])
def test_no_spread_is_exactly_zero_at_any_magnitude(value: float, group: int) -> None:
    advantages = group_relative_advantage(torch.full((2, group, 5), value))
    assert torch.equal(advantages, torch.zeros_like(advantages))


def test_spread_below_a_millionth_is_none() -> None:
    assert group_relative_advantage(torch.tensor([[1.0, 1.0 + 4e-7]])).tolist() == [[0.0, 0.0]]
    assert group_relative_advantage(torch.tensor([[1.0, 1.0 + 4e-6]])).abs().min() > 0.5


def test_mask_leaves_entries_out_of_the_statistics() -> None:
    returns = torch.tensor([[1.0, 3.0, math.nan, 100.0], [8.0, 1.0, 1.0, 1.0]])
    mask = torch.tensor([[True, True, False, False], [True, False, False, False]])
    for baseline, first in (("mean", -1.0), ("leave_one_out", -2.0)):
        advantages = group_relative_advantage(returns, mask=mask, baseline=baseline)  # type: ignore[arg-type]
        assert advantages.tolist() == [[first, -first, 0.0, 0.0], [0.0] * 4]
    nothing = group_relative_advantage(returns, mask=torch.zeros_like(mask), scale="none", baseline="leave_one_out")
    assert torch.equal(nothing, torch.zeros(2, 4))


@given(st.integers(0, 2**31), st.sampled_from(["mean", "leave_one_out"]), st.sampled_from(["std", "none"]))
def test_advantage_against_a_loop(seed: int, baseline: str, scale: str) -> None:
    generator = torch.Generator().manual_seed(seed)
    returns = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    mask = torch.rand(2, 5, 3, generator=generator) < 0.7
    computed = group_relative_advantage(returns, mask=mask, baseline=baseline, scale=scale, std_eps=0.01)  # type: ignore[arg-type]
    for p in range(2):
        for k in range(3):
            members = [g for g in range(5) if mask[p, g, k]]
            values = {g: returns[p, g, k].item() for g in members}
            for g in range(5):
                others = [values[o] for o in members if baseline == "mean" or o != g]
                expected = 0.0
                if g in values and len(members) > 1:
                    mean = sum(values.values()) / len(values)
                    std = math.sqrt(sum((v - mean) ** 2 for v in values.values()) / len(values))
                    expected = (values[g] - sum(others) / len(others)) / (std + 0.01 if scale == "std" else 1.0)
                assert computed[p, g, k].item() == pytest.approx(expected, abs=1e-9)


def test_advantages_are_constants() -> None:
    assert not group_relative_advantage(torch.rand(1, 4, requires_grad=True)).requires_grad


GROUPS = torch.tensor([[0.0, 0.0, 1.0, 3.0], [2.0, 2.0, 2.0, 2.0]], dtype=torch.float64)


def test_grpo_advantages_by_the_usual_code() -> None:
    """`rewards − mean`, divided by torch's `std` (n − 1) + 1e-4."""
    advantages = group_relative_advantage(GROUPS, std_eps=1e-4, correction=1)
    expected = (GROUPS - GROUPS.mean(1, keepdim=True)) / (GROUPS.std(1, keepdim=True) + 1e-4)
    torch.testing.assert_close(advantages, expected, rtol=1e-13, atol=1e-13)  # as exact as the returns
    assert advantages[1].tolist() == [0, 0, 0, 0]


def test_batch_std_divides_all_groups_by_one_number() -> None:
    for correction in (0, 1):
        advantages = group_relative_advantage(GROUPS, scale="batch_std", correction=correction)
        expected = (GROUPS - GROUPS.mean(1, keepdim=True)) / GROUPS.std(correction=correction)
        assert torch.allclose(advantages, expected)
    mask = GROUPS != 3
    masked = group_relative_advantage(GROUPS, scale="batch_std", mask=mask)
    center = torch.tensor([[1 / 3], [2.0]], dtype=torch.float64)
    assert torch.allclose(masked, ((GROUPS - center) / GROUPS[mask].std(correction=0)).masked_fill(~mask, 0.0))


def test_batch_std_step_by_step_with_leave_one_out() -> None:
    returns = torch.randn(3, 4, 5, dtype=torch.float64)
    advantages = group_relative_advantage(returns, baseline="leave_one_out", scale="batch_std")
    for k in range(5):
        alone = group_relative_advantage(returns[..., k], baseline="leave_one_out", scale="none")
        assert torch.allclose(advantages[..., k], alone / returns[..., k].std(correction=0))


def test_a_batch_without_spread() -> None:
    equal = torch.full((2, 3), 0.1)
    assert (group_relative_advantage(equal, scale="batch_std", correction=1) == 0).all()
    assert (group_relative_advantage(equal[:, :1], scale="std", correction=1) == 0).all()


def test_groups_without_spread() -> None:
    assert groups_without_spread(GROUPS).tolist() == [False, True]
    per_step = torch.stack([GROUPS, torch.zeros_like(GROUPS)], dim=-1)
    assert groups_without_spread(per_step).tolist() == [[False, True], [True, True]]


def test_groups_without_spread_are_those_whose_advantages_are_zero() -> None:
    returns = torch.randint(2, (50, 3)).float()
    zero = (group_relative_advantage(returns) == 0).all(1)
    assert torch.equal(zero, groups_without_spread(returns))
    assert zero.any() and not zero.all()
