"""Who is asked to judge what, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from llm_rl.raro.replay import Pair
from llm_rl.raro.verdict import Verdict
from llm_rl.rollout.data import Sample

Item = TypeVar("Item")
JUDGE, CHOOSE, TRAIN, REPLAY = range(4)
"""What random numbers are for: each has a stream of its own."""


@dataclass(frozen=True)
class Request:
    """One prompt for the critic.

    Attributes:
        pair: The pair to be judged.
        expert_first: Whether the expert's answer is Answer 1.
        replayed: Whether the pair comes from the replay buffer.
    """

    pair: Pair
    expert_first: bool
    replayed: bool = False


@dataclass(frozen=True)
class Critique:
    """One completion of the critic.

    Attributes:
        request: What it was asked.
        sample: What it wrote.
        verdict: Its label; None where it is unparsable or over-length.
    """

    request: Request
    sample: Sample
    verdict: Verdict | None


def orders(coin: float, both: bool) -> list[bool]:
    """`expert_first` of each prompt for a pair: both orders, or one by a number drawn from [0, 1)."""
    return [True, False] if both else [coin < 0.5]


def draws(*key: int) -> np.random.Generator:
    """Random numbers that depend on the key (seed, step, purpose, …) alone: so all processes and resumed runs agree."""
    return np.random.default_rng(key)


def dealt(items: Sequence[Item], processes: int, process: int) -> list[Item]:
    """A process's part of what all have: contiguous, the parts' sizes at most one apart."""
    return [items[index] for index in np.array_split(np.arange(len(items)), processes)[process]]
