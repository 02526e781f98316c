"""CHORD: expert answers in the loss of reinforcement learning (arXiv:2508.11408).

The loss is (1 − μ)·L_RL + μ·L_SFT. μ falls in the course of training, and a token of an answer may weigh φ = p(1 − p)
with p its probability: what the policy knows already, and what is foreign to it, weigh little.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from llm_rl.core import masked_sum
from llm_rl.core._checks import check_mask
from llm_rl.rollout.completions import prompt_ids
from llm_rl.rollout.data import RolloutBatch, Sample
from llm_rl.rollout.generation import SamplingParams


class MuSchedule(NamedTuple):
    """The weight μ of the expert answers, by optimizer steps: up in a line, down along a cosine, then constant.

    Attributes:
        peak: Highest μ, in [0, 1].
        valley: Last μ, in [0, `peak`].
        warmup_steps: Steps from 0 to the peak, ≥ 0.
        decay_steps: Steps from the peak to the valley, ≥ 0.
    """

    peak: float
    valley: float
    warmup_steps: int
    decay_steps: int

    def __call__(self, step: int) -> float:
        """μ of a step, counted from 0."""
        if step < self.warmup_steps:
            return self.peak * step / self.warmup_steps
        after = step - self.warmup_steps
        if after >= self.decay_steps:
            return self.valley
        return self.valley + (self.peak - self.valley) * (1 + math.cos(math.pi * after / self.decay_steps)) / 2


def expert_loss(logprobs: Tensor, mask: Tensor, tokens: Tensor, *, phi: bool) -> Tensor:
    """This micro-batch's share of −mean of φ·log π over the tokens of expert answers.

    Args:
        logprobs: `(B, T)`, log π of the answers' tokens.
        mask: bool `(B, T)`, the tokens of the answers.
        tokens: int64 scalar, how many there are in the whole optimizer step.
        phi: Whether φ = p(1 − p), a constant, weighs the tokens; else 1.

    Returns:
        Scalar.

    Raises:
        ValueError: The mask does not fit.
    """
    check_mask(mask, "logprobs", logprobs)
    if phi:
        probabilities = logprobs.detach().masked_fill(~mask, 0.0).exp()
        logprobs = logprobs * probabilities * (1 - probabilities)
    return -masked_sum(logprobs, mask) / tokens.clamp(min=1)


class ExpertAnswers:
    """Expert answers, encoded once, and which of them each micro-batch takes.

    The order depends on the seed and the place in the run alone, so that a run that goes on takes the same. Every
    process knows what all take, and so the number of tokens of an optimizer step.

    Args:
        rows: Rows with "prompt" (text or messages) and "completion" (a text, or a list of one message).
        causal: The model whose positions the rows have to fit.
        tokenizer: Encodes them.
        params: The end token that is put behind an answer, and the padding.
        chat_template_kwargs: Arguments of the chat template.
        seed: Of the order.

    Raises:
        ValueError: There are no rows, or one cannot be used; the message says which.
    """

    def __init__(
        self, rows: Any, causal: Any, tokenizer: Any, params: SamplingParams, chat_template_kwargs: Any, seed: int
    ) -> None:
        room = getattr(causal.config.get_text_config(), "max_position_embeddings", None) or math.inf
        self.seed, self.pad_id, self.samples = seed, params.pad_token_id, []
        for index in range(len(rows)):
            row = rows[index]
            try:
                text = _answer(row)
                before = prompt_ids(row, causal, tokenizer, params, chat_template_kwargs)
                ids = [int(token) for token in tokenizer(text, add_special_tokens=False)["input_ids"]]
                ids.append(tokenizer.eos_token_id if tokenizer.eos_token_id is not None else params.eos_token_ids[0])
                if len(before) + len(ids) > room:
                    raise ValueError(f"{len(before)} + {len(ids)} tokens exceed the model's {room} positions")
            except ValueError as error:
                raise ValueError(f"row {index} of chord_dataset: {error}") from error
            self.samples.append(Sample(row, before, ids, truncated=False))
        if not self.samples:
            raise ValueError("chord_dataset has no rows")
        self._order: tuple[int, list[int]] = (-1, [])

    def take(self, first: int, count: int) -> list[Sample]:
        """`count` answers from place `first` of an endless series of shuffled passes."""
        return [self.samples[self._at(place)] for place in range(first, first + count)]

    def batch(self, samples: Sequence[Sample], device: torch.device | str) -> RolloutBatch:
        """The padded tensors of answers."""
        return RolloutBatch.collate(samples, self.pad_id, device=device)

    def _at(self, place: int) -> int:
        epoch, index = divmod(place, len(self.samples))
        if self._order[0] != epoch:
            generator = torch.Generator().manual_seed(self.seed + epoch)
            self._order = epoch, torch.randperm(len(self.samples), generator=generator).tolist()
        return self._order[1][index]


def _answer(row: Any) -> str:
    value = row.get("completion") if hasattr(row, "get") else None
    text = value[0].get("content") if isinstance(value, list) and len(value) == 1 else value
    if not isinstance(text, str):
        raise ValueError(f"'completion' is {value!r}; it must be a text or a list of one message")
    return text
