"""RARO's metrics, and warnings that say what to do. Source: docs/raro.md, 'Reading the log'.

Shares are exact over micro-batches and processes. Accuracy is among labels that name an answer: 0.5 is guessing,
however many ties there are.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor

from llm_rl.core import MetricAccumulator, group_statistics, groups_without_spread, masked_sum

logger = logging.getLogger(__name__)


def record_groups(metrics: MetricAccumulator, role: str, rewards: Tensor, valid: Tensor) -> None:
    """Adds "<role>/reward_mean", "/reward_std" (within groups), "/groups_without_spread" and "/dropped_frac".

    Args:
        metrics: The accumulator to add to.
        role: "policy" or "critic".
        rewards: `(P, G)`; anything where `valid` is False.
        valid: bool `(P, G)`. A group with fewer than two that count has no spread.
    """
    metrics.add_ratio(f"{role}/dropped_frac", (~valid).sum(), valid.numel())
    metrics.add_ratio(f"{role}/reward_mean", masked_sum(rewards, valid), valid.sum())
    if rewards.numel():
        std, flat = group_statistics(rewards, valid).std, groups_without_spread(rewards, mask=valid)
        metrics.add_ratio(f"{role}/reward_std", std.sum(), std.numel())
        metrics.add_ratio(f"{role}/groups_without_spread", flat.sum(), flat.numel())


class Symptom(NamedTuple):
    """Something wrong that log lines show.

    Attributes:
        metric: Name of the metric in a line.
        is_wrong: Whether its mean over several lines is.
        says: What that means.
        remedy: What to do.
    """

    metric: str
    is_wrong: Callable[[float], bool]
    says: str
    remedy: str


POSITION_GAP, REWARD_GAP = "critic/position_gap", "policy/reward_gap"
SYMPTOMS = (
    Symptom(
        "critic/tie_rate",
        lambda value: value >= 0.95,
        "the critic says tie nearly always",
        "lower tau_crit (at 0.5 a tie is worth no more than a guess)",
    ),
    Symptom(
        "critic/unparsable_rate",
        lambda value: value >= 0.2,
        "many critiques hold no label",
        "start from a model that was fine-tuned to end with [Answer 1], [Answer 2] or [Tie], and set "
        "unparsable_reward=0 if the rate grows: what is left out is not discouraged",
    ),
    Symptom(
        "critic/overlength_rate",
        lambda value: value >= 0.5,
        "most critic completions are over-length",
        "raise max_critic_completion_length, ask for shorter critiques in critic_system, or set overlength_reward=0",
    ),
    Symptom(
        "policy/overlength_rate",
        lambda value: value >= 0.5,
        "most policy completions are over-length",
        "raise max_completion_length, ask for shorter reasoning in policy_system, or set overlength_reward=0",
    ),
    Symptom(
        "critic/accuracy",
        lambda value: value >= 0.99,
        "the critic is always right, so that the policy's groups have no spread",
        "start from a model that was fine-tuned on the expert answers, look for what gives the policy away (format, "
        "length), or raise lambda_pol against lambda_crit",
    ),
    Symptom(
        "critic/accuracy",
        lambda value: abs(value - 0.5) <= 0.02,
        "the critic's accuracy stays at 0.5, that of guessing",
        "raise critic_pairs or critic_generations; a game that is over, with answers that cannot be told apart, looks "
        "the same, so compare what verifiers say",
    ),
    Symptom(
        POSITION_GAP,
        lambda value: abs(value) >= 0.4,
        "the critic goes by the position of the answers",
        "set judge_both_orders=True, or raise critic_pairs",
    ),
    Symptom(
        REWARD_GAP,
        lambda value: value <= 0,
        "answers that differ from the expert's earn no less than those that equal it",
        "let the critic learn first (critic_warmup=0.7), raise lambda_crit or critic_pairs, or raise tau_pol, "
        "which an equal answer gets for a tie; where equal is not the same as right, compare what verifiers say",
    ),
)


class CriticWarnings:
    """Warns once of each symptom that the mean of the latest log lines has, for a line alone is noisy.

    Args:
        patience: How many lines; those without the metric are not counted.
    """

    def __init__(self, patience: int = 10) -> None:
        self.patience = patience
        self._latest: dict[str, deque[float]] = {one.metric: deque(maxlen=patience) for one in SYMPTOMS}
        self._told: set[Symptom] = set()

    def check(self, line: Mapping[str, float]) -> None:
        """Look at a log line."""
        both = [line.get(f"critic/accuracy_expert_{position}") for position in ("first", "second")]
        if both[0] is not None and both[1] is not None:
            line = {**line, POSITION_GAP: both[0] - both[1]}
        if {"policy/reward_equal", "policy/reward_distinct"} <= line.keys():
            line = {**line, REWARD_GAP: line["policy/reward_equal"] - line["policy/reward_distinct"]}
        for metric, latest in self._latest.items():
            if metric in line:
                latest.append(line[metric])
        for symptom in SYMPTOMS:
            latest = self._latest[symptom.metric]
            if symptom in self._told or len(latest) < self.patience:
                continue
            if symptom.is_wrong(mean := sum(latest) / self.patience):
                self._told.add(symptom)
                message = "%s (%s = %.3g, the mean of %d log lines); %s"
                logger.warning(message, symptom.says, symptom.metric, mean, self.patience, symptom.remedy)
