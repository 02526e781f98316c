import math

import pytest
import torch

from llm_rl.core import MetricAccumulator, PolicyTensors, clipped_surrogate, record_monitors
from tests.helpers.refusals import refused


def policy(mask: torch.Tensor, generated: torch.Tensor | None = None) -> PolicyTensors:
    ratios = torch.tensor([[1.5, 0.5, 1.0, 1.0], [1.5, 0.9, 1.0, 1.0]])
    advantages = torch.tensor([[1.0], [-1.0]])
    old = torch.zeros(2, 4)
    surrogate = clipped_surrogate(ratios.log(), old, advantages, 0.2, 0.2)
    entropy = torch.tensor([[1.0, 2.0, 3.0, math.nan], [4.0, 5.0, math.nan, math.nan]])
    logprobs = ratios.log().masked_fill(~mask, math.nan)
    return PolicyTensors(logprobs, old, surrogate, mask, mask if generated is None else generated, entropy)


MASK = torch.tensor([[True, True, False, False], [True, True, False, False]])
GENERATED = torch.tensor([[True, True, True, False], [True, True, False, False]])


def test_by_hand() -> None:
    metrics = MetricAccumulator()
    rewards = torch.tensor([[0.0, 1.0], [1.0, 1.0], [3.0, 5.0]])
    record_monitors(metrics, rewards=rewards, policy=policy(MASK, GENERATED), grad_norm=torch.tensor(2.5))
    logs = [math.log(r) ** 2 / 2 for r in (1.5, 0.5, 1.5, 0.9)]
    assert metrics.compute() == pytest.approx(
        {
            "reward_mean": 11 / 6,
            "reward_std": (0.5 + 0 + 1) / 3,
            "groups_without_spread": 1 / 3,
            "approx_kl": sum(logs) / 4,
            "clip_frac": 1 / 4,  # 1.5 with A > 0; 0.5 with A > 0 and 1.5 with A < 0 do not act
            "outside_frac": 3 / 4,
            "clamped_frac": 0.0,
            "ratio_mean": 4.4 / 4,
            "ratio_spread": (0.5**2 + 0.5**2 + 0.5**2 + 0.1**2) / 4,
            "entropy": 3.0,
            "masked_frac": 1 / 5,
            "grad_norm": 2.5,
        }
    )


def test_any_split_gives_the_same() -> None:
    whole, parts = MetricAccumulator(), MetricAccumulator()
    both = policy(MASK, GENERATED)
    record_monitors(whole, policy=both)
    for row in (slice(0, 1), slice(1, 2)):
        surrogate = type(both.surrogate)(*(tensor[row] for tensor in both.surrogate))
        tensors = (both.logprobs[row], both.old_logprobs[row], surrogate, both.mask[row], both.generated[row])
        record_monitors(parts, policy=PolicyTensors(*tensors, both.entropy[row]))
    expected = whole.compute()
    assert expected.keys() == parts.state_dict()["ratios"].keys()
    assert parts.compute() == pytest.approx(expected)


def test_groups_whose_advantages_are_made_from_something_else() -> None:
    metrics = MetricAccumulator()
    flat = torch.tensor([[True, False, False], [True, True, False]])
    record_monitors(metrics, rewards=torch.tensor([[1.0, 1.0], [1.0, 1.0]]), flat_groups=flat)
    assert metrics.compute() == {"reward_mean": 1.0, "reward_std": 0.0, "groups_without_spread": 0.5}


def test_what_is_not_known_is_absent() -> None:
    metrics = MetricAccumulator()
    nothing = torch.zeros_like(MASK)
    record_monitors(metrics, policy=policy(nothing, GENERATED))
    assert metrics.compute() == {"masked_frac": 1.0}
    record_monitors(metrics)
    assert metrics.compute() == {}


def test_bad_arguments() -> None:
    metrics = MetricAccumulator()
    refused("intersect", lambda: record_monitors(metrics, policy=policy(GENERATED, MASK)))
    refused(r"torch\.bool", lambda: record_monitors(metrics, policy=policy(MASK, GENERATED.float())))
    refused("members", lambda: record_monitors(metrics, rewards=torch.zeros(3)))


def test_ratios_at_the_clamp_are_counted() -> None:
    mask = torch.tensor([[True, True, True, False]])
    new, old = torch.tensor([[-1.0, -30.0, 0.0, 0.0]]), torch.tensor([[-26.0, -1.0, -19.0, -50.0]])
    surrogate = clipped_surrogate(new, old, torch.ones(1, 1), 0.2, 0.2)
    metrics = MetricAccumulator()
    record_monitors(metrics, policy=PolicyTensors(new, old, surrogate, mask, mask))
    assert metrics.compute()["clamped_frac"] == pytest.approx(2 / 3)
