"""What goes through the model together: completions of both roles, in batches of a bounded number of tokens.

`Room` says which prompts leave room for a completion, given that bound and the model's positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from llm_rl.core import LossCounts
from llm_rl.raro.objective import RoleCounts
from llm_rl.rollout.data import RolloutBatch, Sample
from llm_rl.rollout.generation import Completion, SamplingParams, TransformersEngine

REMEDIES = {
    "policy": "max_completion_length",
    "critic": "max_critic_completion_length (or max_completion_length, where that is not set)",
}


@dataclass(frozen=True)
class RoleSample(Sample):
    """A completion that counts in the loss, with the role that wrote it and its advantage within its group."""

    is_critic: bool = False
    advantage: float = 0.0


@dataclass
class RoleBatch(RolloutBatch):
    """A micro-batch of one role.

    Attributes:
        is_critic: bool `(B,)`.
        policy_counts: int64 `(2,)`, the policy's sequences and tokens in the whole optimizer step of all processes.
        critic_counts: int64 `(2,)`, the critic's.
        dropped_tokens: Tokens of this process's completions that the step leaves out; in its first batch alone.
    """

    is_critic: Tensor | None = None
    policy_counts: Tensor | None = None
    critic_counts: Tensor | None = None
    dropped_tokens: int | None = None

    @classmethod
    def of(cls, samples: Sequence[RoleSample], pad_id: int, device: torch.device | str = "cpu") -> "RoleBatch":
        """Pads samples of one role."""
        batch = cls.collate(samples, pad_id, device=device)
        batch.advantages = torch.tensor([sample.advantage for sample in samples], device=device)  # (B,)
        batch.is_critic = torch.tensor([sample.is_critic for sample in samples], device=device)  # (B,)
        return batch

    @property
    def of_critic(self) -> bool:
        """Whether these are the critic's completions."""
        return self.is_critic is not None and bool(self.is_critic[0])

    @property
    def role_counts(self) -> RoleCounts:
        """The counts of the whole optimizer step; `ValueError` where the batch has none."""
        if self.policy_counts is None or self.critic_counts is None:
            raise ValueError("the batch has no counts; make it with RAROTrainer's roll-out")
        return RoleCounts(LossCounts(*self.policy_counts), LossCounts(*self.critic_counts))


@dataclass(frozen=True)
class Room:
    """Bounds on one sequence, prompt and longest completion: by `max_tokens_per_batch` and, if any, by the model."""

    max_tokens: int
    positions: int | None

    def holds(self, prompt: int, completion: int) -> bool:
        """Whether so many tokens of a prompt and of a completion fit."""
        return prompt + completion <= min(self.max_tokens, self.positions or self.max_tokens)

    def check(self, role: str, prompt: int, completion: int, question: str) -> None:
        """Raises `ValueError`, which quotes the question, where it cannot be asked at all.

        `prompt` are the tokens of the prompt of the role, "policy" or "critic", of the latter without an answer of the
        policy.
        """
        if self.holds(prompt, completion):
            return
        held = "" if role == "policy" else ", which holds the expert's answer and none of the policy's yet,"
        raise ValueError(
            f"the {role}'s prompt{held} has {prompt} tokens and its completion up to {completion}, but "
            f"max_tokens_per_batch is {self.max_tokens} and the model's positions are {self.positions}; raise "
            f"max_tokens_per_batch, lower {REMEDIES[role]}, or leave out the question {question[:80]!r}"
        )


def token_budget_batches(lengths: Sequence[tuple[int, int]], max_tokens: int) -> list[list[int]]:
    """Indices in batches of sequences of like length, each at most `max_tokens` tokens with its padding.

    `lengths` are the tokens of each prompt, padded on the left, and of each completion, padded on the right; a batch
    has sequences × (longest prompt + longest completion). Every index is there once, the longest sequences first.
    `ValueError` where one sequence alone has more tokens.
    """
    # The longest first, so that like lengths share a batch and little of it is padding.
    order = sorted(range(len(lengths)), key=lambda index: (-sum(lengths[index]), index))
    if order and sum(lengths[order[0]]) > max_tokens:
        prompt, completion = lengths[order[0]]
        raise ValueError(
            f"one sequence has {prompt} + {completion} tokens, prompt and completion, but max_tokens_per_batch is "
            f"{max_tokens}; raise it, or shorten the data, max_completion_length or max_critic_completion_length"
        )
    batches: list[list[int]] = []
    widths = (0, 0)
    for index in order:
        prompt, completion = lengths[index]
        wider = max(widths[0], prompt), max(widths[1], completion)
        if batches and (len(batches[-1]) + 1) * sum(wider) <= max_tokens:
            batches[-1].append(index)
            widths = wider
        else:
            batches.append([index])
            widths = (prompt, completion)
    return batches


def role_batches(
    samples: Sequence[RoleSample], max_tokens: int, pad_id: int, device: torch.device | str = "cpu"
) -> list[RoleBatch]:
    """Micro-batches of one role each, see `token_budget_batches`."""
    result = []
    for is_critic in (False, True):
        mine = [sample for sample in samples if sample.is_critic is is_critic]
        lengths = [(len(sample.prompt_ids), len(sample.completion_ids)) for sample in mine]
        for indices in token_budget_batches(lengths, max_tokens):
            result.append(RoleBatch.of([mine[index] for index in indices], pad_id, device))
    return result


class TokenBudgetEngine(TransformersEngine):
    """`TransformersEngine` on batches of like length that have at most `max_tokens` tokens when they are full.

    These are sequences × (longest prompt + `max_new_tokens`). The other arguments are those of `TransformersEngine`.
    """

    def __init__(self, max_tokens: int, batch_size: int | None = None, share_prompts: bool | None = False) -> None:
        super().__init__(batch_size, share_prompts)
        self.max_tokens = max_tokens

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        """One completion for each prompt; `ValueError` where one and its longest completion have more tokens."""
        found: dict[int, Any] = {}
        lengths = [(len(prompt), params.max_new_tokens) for prompt in prompts]
        for indices in token_budget_batches(lengths, self.max_tokens):
            completions = super().generate([prompts[index] for index in indices], params)
            found |= zip(indices, completions, strict=True)
        return [found[index] for index in range(len(prompts))]
