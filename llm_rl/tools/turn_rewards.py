"""Rewards of turns: what each turn of an episode brought, and where that stands among its tokens."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor


def rewards_of_turns(scores: Sequence[float], total: float, weight: float = 1.0) -> list[float]:
    """What each turn brought: the rise of the environment's score in it, and at the last turn all other rewards.

    Args:
        scores: The score at the start and after each of the turns.
        total: The reward of the whole episode.
        weight: The weight that the last score has in it.

    Returns:
        One number a turn; their sum is the total, less `weight` · the score at the start.

    Raises:
        ValueError: There is no turn.
    """
    if len(scores) < 2:
        raise ValueError(f"scores has {len(scores)} entries; give the one at the start and one after each turn")
    risen = [weight * (after - before) for before, after in pairwise(scores)]
    risen[-1] += total - weight * scores[-1]
    return risen


def turn_numbers(sampled: Tensor) -> Tensor:
    """The turn of each token, from 0: a turn is a run of sampled tokens.

    Args:
        sampled: bool `(B, T)`, the tokens that the policy sampled.

    Returns:
        int64 `(B, T)`; outside turns the number of the turn before, 0 before the first.
    """
    starts = sampled & ~torch.nn.functional.pad(sampled[:, :-1], (1, 0))
    return (starts.long().cumsum(1) - 1).clamp(min=0)


def at_turn_ends(rewards: Tensor, sampled: Tensor) -> Tensor:
    """Rewards of turns `(B, K)`, NaN behind the last turn, at the last token of each; `(B, T)`, 0 elsewhere."""
    ends = sampled & ~torch.nn.functional.pad(sampled[:, 1:], (0, 1))
    return rewards.nan_to_num(0.0).gather(1, turn_numbers(sampled)).masked_fill(~ends, 0.0)
