"""What a completion is worth on verl, and how one number tells the role as well. Needs no verl.

verl's advantages see a number for each completion and nothing of its row. So the critic's rewards are moved up by
`CRITIC_OFFSET`, out of the policy's range: differences within a group, all that GRPO uses, stay as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from llm_rl.raro import Label, Pair, RewardMatrix, extract_answer, parse_label
from llm_rl.raro.prompts import REASONING_TAGS

CRITIC_OFFSET = 2.0
"""Rewards of either role lie in [0, 1]: scores of the policy do too, the critic's lie in [2, 3]."""


@dataclass(frozen=True)
class Critique:
    """What the critic wrote of a policy's answer, as it travels from the agent loop to the reward manager."""

    text: str
    expert_first: bool
    truncated: bool

    def label(self, pair: Pair) -> Label | None:
        """The label; None where it is unparsable or over-length."""
        return None if self.truncated else parse_label(self.text, self.expert_first, pair.texts)


@dataclass(frozen=True)
class Outcome:
    """What became of a completion: its reward, None where it is left out of training, the mean over its labels."""

    reward: float | None
    labels: tuple[Label, ...] = ()


def pair_of(info: Mapping[str, Any], policy_answer: str, step: int = 0) -> Pair:
    """The pair of a row's `extra_info` (`rows`) and an answer of the policy."""
    return Pair(info["question_id"], info["question"], info["expert_answer"], policy_answer, step)


def policy_outcome(
    text: str,
    truncated: bool,
    info: Mapping[str, Any],
    critiques: Sequence[Critique],
    matrix: RewardMatrix,
    tags: Sequence[str] = REASONING_TAGS,
) -> Outcome:
    """The policy's reward, the mean over the labels that could be parsed; `info` is its row's `extra_info`.

    A truncated completion is left out, as is one without any label. One that ended without an answer beyond its hidden
    reasoning has lost: its reward is 0.
    """
    if truncated:
        return Outcome(None)
    answer = extract_answer(text, tags)
    if answer is None:
        return Outcome(0.0)
    pair = pair_of(info, answer)
    labels = tuple(label for critique in critiques if (label := critique.label(pair)) is not None)
    return Outcome(matrix.policy_mean(labels), labels)


def critic_outcome(critique: Critique, pair: Pair, matrix: RewardMatrix) -> Outcome:
    """The critic's reward for its own completion; left out where it has no label."""
    label = critique.label(pair)
    return Outcome(None) if label is None else Outcome(matrix.critic(label), (label,))


def encode_score(role: str, reward: float) -> float:
    """The number that verl gets for a completion of the "policy" or the "critic" with a reward in [0, 1].

    Another role or reward is a `ValueError`.
    """
    if role not in ("policy", "critic"):
        raise ValueError(f"role is {role!r}; it must be 'policy' or 'critic'")
    if not 0 <= reward <= 1:
        raise ValueError(f"reward is {reward}; RARO's rewards lie in [0, 1]")
    return reward + CRITIC_OFFSET * (role == "critic")


def decode_scores(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Rewards, float `(B,)`, and which ones are the critic's, bool `(B,)`; of scores of `encode_score`, float `(B,)`.

    Another score is a `ValueError`.
    """
    is_critic = scores >= CRITIC_OFFSET
    rewards = scores - CRITIC_OFFSET * is_critic
    if wrong := scores[~((rewards >= 0) & (rewards <= 1))].tolist():
        raise ValueError(
            f"scores {wrong[:4]} lie outside [0, 1] and [2, 3]; RARO needs those of RARORewardManager as they are: set "
            "algorithm.use_kl_in_reward=False and actor_rollout_ref.actor.use_kl_loss=True"
        )
    return rewards, is_critic
