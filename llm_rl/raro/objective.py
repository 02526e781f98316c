"""RARO's rewards and its joint objective: two roles of one model in one optimizer step. Source: docs/raro.md.

J = λ_pol J_pol + λ_crit J_crit − β KL. Each role's clipped surrogate is normalized by that role's own sequences and
tokens of the whole step, so that neither weighs more for being longer or sampled more often; the divergence is of all
tokens that count, whoever wrote them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from llm_rl.core import Baseline, LossCounts, LossType, Scale, aggregate_loss, group_relative_advantage
from llm_rl.core._checks import check_mask, check_same_shape
from llm_rl.raro.labels import Label


@dataclass(frozen=True)
class RewardMatrix:
    """What each label is worth to each role.

    | label | critic | policy |
    |---|---|---|
    | expert | 1 | 0 |
    | policy | 0 | 1 |
    | tie | τ_crit | τ_pol |

    A critic that cannot tell has 0.5 from guessing, so a τ_crit above that makes it admit a tie.

    Attributes:
        tau_pol: τ_pol in [0, 1].
        tau_crit: τ_crit in [0, 1].

    Raises:
        ValueError: A reward of a tie lies outside [0, 1].
    """

    tau_pol: float = 0.6
    tau_crit: float = 0.55

    def __post_init__(self) -> None:
        for name in ("tau_pol", "tau_crit"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)!r}; a tie is worth between losing, 0, and winning, 1")

    def critic(self, label: Label) -> float:
        """The critic's reward for its label."""
        return {Label.EXPERT: 1.0, Label.POLICY: 0.0, Label.TIE: self.tau_crit}[label]

    def policy(self, label: Label) -> float:
        """The reward of the policy whose answer was labeled."""
        return {Label.EXPERT: 0.0, Label.POLICY: 1.0, Label.TIE: self.tau_pol}[label]

    def policy_mean(self, labels: Sequence[Label | None]) -> float | None:
        """The policy's mean reward over the labels of one answer that could be parsed; None where none could."""
        rewards = [self.policy(label) for label in labels if label is not None]
        return sum(rewards) / len(rewards) if rewards else None


@dataclass(frozen=True)
class RaroConfig:
    """Parameters of the joint loss.

    Attributes:
        lambda_pol: λ_pol ≥ 0.
        lambda_crit: λ_crit ≥ 0.
        kl_weight: β ≥ 0, weight of the divergence.
        loss_type: Normalizer of each role's surrogate, one of those of `core.loss_type_weights`.
        max_lengths: Longest completion of policy and critic, for "dr_grpo" alone; the divergence takes the longer one.
    """

    lambda_pol: float = 1 / 9
    lambda_crit: float = 8 / 9
    kl_weight: float = 1e-3
    loss_type: LossType = "grpo"
    max_lengths: tuple[int, int] | None = None


class RoleCounts(NamedTuple):
    """What an optimizer step divides by: what counts of each role, over micro-batches and processes."""

    policy: LossCounts
    critic: LossCounts

    @property
    def together(self) -> LossCounts:
        """The counts of both roles together."""
        return LossCounts(self.policy.sequences + self.critic.sequences, self.policy.tokens + self.critic.tokens)


class RaroLoss(NamedTuple):
    """Scalars with gradient; `loss` is λ_pol · policy + λ_crit · critic + β · kl.

    Attributes:
        loss: The scalar to be minimized.
        policy: −J_pol.
        critic: −J_crit.
        kl: The divergence; 0 without one.
    """

    loss: Tensor
    policy: Tensor
    critic: Tensor
    kl: Tensor


def joint_loss(
    surrogate: Tensor,
    kl: Tensor | None,
    mask: Tensor,
    is_critic: Tensor,
    config: RaroConfig,
    counts: RoleCounts | None = None,
) -> RaroLoss:
    """The loss of an optimizer step, or a micro-batch's share of it.

    Args:
        surrogate: `(B, T)`, the clipped surrogate of each token, to be maximized.
        kl: `(B, T)`, the divergence of each token. None: there is no reference.
        mask: bool `(B, T)`, the tokens that count; outside it anything, NaN included.
        is_critic: bool `(B,)`, the critic's completions; the others are the policy's.
        config: Parameters of the joint loss.
        counts: Counts of the whole step, so that the shares of its micro-batches add up. None: those of this batch.

    Returns:
        The loss and its parts before their weights. A role without a token that counts adds 0.

    Raises:
        ValueError: Shapes do not fit, or a mask is not bool.
    """
    # Each role's tokens, and what its surrogate is divided by.
    check_mask(mask, "surrogate", surrogate)
    check_mask(is_critic, "surrogate[:, 0]", surrogate[:, 0])
    masks = mask & ~is_critic.unsqueeze(1), mask & is_critic.unsqueeze(1)  # (B, T) each
    counts = counts or RoleCounts(*(LossCounts(role.any(-1).sum(), role.sum()) for role in masks))
    lengths = config.max_lengths or (None, None)

    # The surrogates, to be minimized, with the weights of the roles.
    policy, critic = (
        -aggregate_loss(surrogate, role, config.loss_type, of_role, max_length=length)
        for role, of_role, length in zip(masks, counts, lengths, strict=True)
    )
    loss = config.lambda_pol * policy + config.lambda_crit * critic

    # The divergence, of both roles together.
    if kl is None:
        return RaroLoss(loss, policy, critic, torch.zeros_like(loss))
    check_same_shape("kl", kl, "surrogate", surrogate)
    longest = None if config.max_lengths is None else max(config.max_lengths)
    divergence = aggregate_loss(kl, mask, config.loss_type, counts.together, max_length=longest)
    return RaroLoss(loss + config.kl_weight * divergence, policy, critic, divergence)


def role_advantages(rewards: Tensor, valid: Tensor, *, baseline: Baseline = "mean", scale: Scale = "std") -> Tensor:
    """Group-relative advantages over the members that count, as GRPO's (std_eps 1e-4, sample deviation).

    Args:
        rewards: `(Q, G)`; anything where `valid` is False.
        valid: bool `(Q, G)`.
        baseline: What rewards are compared with, as in `core.group_relative_advantage`.
        scale: What a difference is divided by, as in `core.group_relative_advantage`.

    Returns:
        `(Q, G)`; 0 for members that do not count, and in groups with fewer than two that do or without spread.
    """
    counted = rewards.masked_fill(~valid, 0.0)  # (Q, G)
    return group_relative_advantage(counted, baseline=baseline, scale=scale, std_eps=1e-4, correction=1, mask=valid)
