"""Answers to prompts of plain text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from dllm_rl.decoding import Decoding, decode
from dllm_rl.decoding.settings import Look
from dllm_rl.task import UnmaskBatch
from dllm_rl.text.pattern import Pattern
from llm_rl.rollout.data import encode_prompt, pad

Prompts = Sequence[str | Sequence[Mapping[str, str]]]
"""Texts, or messages `{"role": …, "content": …}` for the chat template."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TextBatch(UnmaskBatch):
    """Prompts with an open answer each, which is not known.

    Attributes:
        pattern: Set in a subclass, the form that judges all positions of answers in a training, and that
            `guard="completable"` decodes by.
    """

    pattern: ClassVar[Pattern | None] = None

    @classmethod
    def of(cls, tokenizer: Any, prompts: Prompts, length: int, mask_id: int) -> Self:
        """Prompts as tensors, padded on the left, with answers of `length` masks.

        Raises:
            ValueError: There is no prompt, no length, or one of the reasons of `llm_rl.rollout.data.encode_prompt`.
        """
        if isinstance(prompts, str) or not prompts or length < 1:
            raise ValueError(f"prompts={prompts!r}, {length} new tokens: give a list of prompts and at least 1 token")
        rows = [encode_prompt(prompt, tokenizer, {}) for prompt in prompts]
        ids, mask = pad(rows, tokenizer.pad_token_id or 0, "left")
        open_ = torch.full((len(rows), length), mask_id)
        judged = torch.full(open_.shape, cls.pattern is not None)
        known = {"responses": open_, "answers": open_.clone(), "judged": judged, "scored": torch.zeros_like(judged)}
        return cls(prompt_ids=ids, prompt_mask=None if bool(mask.all()) else mask, mask_id=mask_id, **known)

    @property
    def several(self) -> bool:
        """Whether there is a form, which many answers have."""
        return self.pattern is not None

    @property
    def _form(self) -> Pattern:
        if self.pattern is None:
            raise ValueError(f"{type(self).__name__} has no pattern to judge by; set one in a subclass")
        return self.pattern

    def completable(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether states can become an answer of the form, bool `(N,)`."""
        return self._form.completable(responses, self.mask_id)

    def look(self, problems: UnmaskBatch, states: Tensor, of: Tensor) -> Look:
        """See `Pattern.look`."""
        return self._form.look(problems, states, of)

    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        """No position."""
        return torch.zeros_like(responses, dtype=torch.bool)


def complete(
    model: nn.Module, tokenizer: Any, prompts: Prompts, max_new_tokens: int, decoding: Decoding, **options: Any
) -> list[str]:
    """Decode an answer to each prompt.

    Args:
        model: A LLaDA, or another model through `as_policy_model`; its configuration has the `mask_token_id`.
        tokenizer: Its tokenizer.
        prompts: Texts as they are, or messages `{"role": …, "content": …}`, which go through the chat template. Of
            unequal length they are padded on the left; a model that attends by the distance of tokens answers each as
            if it were alone, but for rounding (see `LogitsAdapter`).
        max_new_tokens: Positions of an answer, masked at the start.
        decoding: How to decode; `guard=Pattern(tokenizer, …)` for answers of a form.
        **options: Further arguments of `decode`.

    Returns:
        The text of each answer up to its first end-of-text token, without special tokens.

    Raises:
        ValueError: The model's configuration has no `mask_token_id`; one of the reasons of `TextBatch.of` or `decode`;
            or a guard left an answer incomplete, at a dead end.
    """
    mask_id = getattr(getattr(model, "config", None), "mask_token_id", None)
    if mask_id is None:
        raise ValueError(f"{type(model).__name__} has no config.mask_token_id; set it to the token of the mask")
    found = decode(model, TextBatch.of(tokenizer, prompts, max_new_tokens, mask_id), decoding, **options)
    if bool(found.dead_end.any()):
        raise ValueError(f"the guard brought prompt {int(found.dead_end.byte().argmax())} to a dead end; use another")
    end = tokenizer.eos_token_id
    rows = (row[: row.index(end)] if end in row else row for row in found.responses.tolist())
    return [tokenizer.decode(row, skip_special_tokens=True, clean_up_tokenization_spaces=False) for row in rows]
