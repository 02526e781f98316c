"""RARO's joint loss as a loop over completions without padding."""

import statistics
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from llm_rl.rollout.data import Sample
from tests.llm_rl.helpers.grpo_reference import share_of, token_logps

Member = tuple[Sample, float | None]
"""A completion and its reward; None where it does not count."""


def slow_advantages(group: Sequence[float | None]) -> list[float]:
    counted = [reward for reward in group if reward is not None]
    if len(counted) < 2 or max(counted) == min(counted):
        return [0.0] * len(group)
    mean, spread = statistics.mean(counted), statistics.stdev(counted)
    return [0.0 if reward is None else (reward - mean) / (spread + 1e-4) for reward in group]


def slow_joint_loss(
    model: Any,
    reference: Any,
    policy: Sequence[Sequence[Member]],
    critic: Sequence[Sequence[Member]],
    *,
    weights: tuple[float, float, float],
    loss_type: str,
    longest: tuple[int, int] = (1, 1),
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss at the first update, where every ratio is 1; and that of the policy and of the critic."""
    kinds, divergences, parts = [], [], []
    for groups, limit in zip((policy, critic), longest, strict=True):
        kept = [
            (sample, advantage)
            for group in groups
            for (sample, reward), advantage in zip(group, slow_advantages([r for _, r in group]), strict=True)
            if reward is not None
        ]
        tokens = sum(len(sample.completion_ids) for sample, _ in kept)
        objective = torch.zeros((), dtype=torch.float64)
        for sample, advantage in kept:
            new, ref = token_logps(model, sample, 1.0), token_logps(reference, sample, 1.0).detach()
            divergences.append((ref - new).exp() - (ref - new) - 1)
            share = share_of(loss_type, len(kept), len(new), tokens, limit)
            objective = objective + share * advantage * (new - new.detach()).exp().sum()
        kinds.append(len(kept))
        parts.append(-objective)
    every = sum(map(len, divergences))
    kl = torch.zeros((), dtype=torch.float64)
    for values in divergences:
        kl = kl + share_of(loss_type, sum(kinds), len(values), every, max(longest)) * values.sum()
    return weights[0] * parts[0] + weights[1] * parts[1] + weights[2] * kl, parts[0], parts[1]
