"""Answers to prompts of plain text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from dllm_rl.decoding import Decoding, decode
from dllm_rl.task import UnmaskBatch
from dllm_rl.text.pattern import Pattern, PatternLook
from llm_rl.rollout.data import encode_prompt, pad


@dataclass(frozen=True, eq=False, kw_only=True)
class TextBatch(UnmaskBatch):
    """Prompts whose answers are open, and not known.

    Attributes:
        pattern: The form that an answer must have, which a subclass sets for a training by it: `completable` then
            judges all positions, and `guard="completable"` decodes by it. None: nothing is judged.
    """

    pattern: ClassVar[Pattern | None] = None

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        prompts: Sequence[str | Sequence[Mapping[str, str]]],
        length: int,
        mask_id: int,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> Self:
        """Prompts as tensors, padded on the left.

        Args:
            tokenizer: A tokenizer of transformers.
            prompts: Texts, or messages `{"role": …, "content": …}`, which go through the chat template.
            length: R, the tokens of an answer.
            mask_id: The mask token.
            chat_template_kwargs: Further arguments of the template.

        Raises:
            ValueError: There is no prompt, or one of the reasons of `llm_rl.rollout.data.encode_prompt`.
        """
        if isinstance(prompts, str) or not prompts or length < 1:
            raise ValueError(f"prompts={prompts!r}, {length} new tokens: give a list of prompts and at least 1 token")
        rows = [encode_prompt(prompt, tokenizer, chat_template_kwargs or {}) for prompt in prompts]
        ids, mask = pad(rows, tokenizer.pad_token_id or 0, "left")
        open_ = torch.full((len(rows), length), mask_id)
        judged = torch.full(open_.shape, cls.pattern is not None)
        known = {"responses": open_, "answers": open_.clone(), "judged": judged, "scored": torch.zeros_like(judged)}
        return cls(prompt_ids=ids, prompt_mask=None if bool(mask.all()) else mask, mask_id=mask_id, **known)

    @property
    def several(self) -> bool:
        """Whether there is a form, which many answers have."""
        return self.pattern is not None

    def completable(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether states can become an answer of the form, bool `(N,)`."""
        return self._form.completable(responses, self.mask_id)

    def look(self, problems: UnmaskBatch, states: Tensor, of: Tensor) -> PatternLook:
        """What `guard="completable"` decodes by, see `Pattern.look`."""
        return self._form.look(problems, states, of)

    @property
    def _form(self) -> Pattern:
        if self.pattern is None:
            raise ValueError(f"{type(self).__name__} has no pattern to judge by; set it in a subclass")
        return self.pattern

    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        """No position."""
        return torch.zeros_like(responses, dtype=torch.bool)


def complete(
    model: nn.Module,
    tokenizer: Any,
    prompts: Sequence[str | Sequence[Mapping[str, str]]],
    max_new_tokens: int,
    decoding: Decoding,
    *,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    generator: torch.Generator | None = None,
    max_tokens: int | None = None,
    max_masked: int | None = None,
) -> list[str]:
    """Decode an answer to each prompt.

    Args:
        model: A LLaDA, or another model through `as_policy_model`; its configuration has the `mask_token_id`.
        tokenizer: Its tokenizer.
        prompts: Texts as they are, or messages `{"role": …, "content": …}`, which go through the chat template. Of
            unequal length they are padded on the left, so that each gets the answer that it gets alone, but for
            rounding, from a model that attends by the distance of tokens (see `LogitsAdapter`).
        max_new_tokens: R, the positions of an answer, all of which are masked at the start.
        decoding: How to decode; `guard=Pattern(tokenizer, …)` for answers of a form.
        chat_template_kwargs: Further arguments of the chat template.
        generator: Source of randomness; None is torch's global one.
        max_tokens: See `decode`.
        max_masked: See `decode`.

    Returns:
        The text of each answer up to its first end-of-text token, without special tokens.

    Raises:
        ValueError: The model's configuration has no `mask_token_id`; one of the reasons of `TextBatch.of` or `decode`;
            or a guard left an answer incomplete, at a dead end.
    """
    mask_id = getattr(getattr(model, "config", None), "mask_token_id", None)
    if mask_id is None:
        raise ValueError(f"{type(model).__name__} has no config.mask_token_id; set it to the token of the mask")
    batch = TextBatch.of(tokenizer, prompts, max_new_tokens, mask_id, chat_template_kwargs)
    limits = {"max_tokens": max_tokens, "max_masked": max_masked}
    found = decode(model, batch, decoding, generator=generator, **limits)
    if bool(found.dead_end.any()):
        raise ValueError(
            f"the guard brought prompt {int(found.dead_end.int().argmax())} to a dead end; use another one"
        )
    answers = []
    for row in found.responses.tolist():
        kept = row[: row.index(tokenizer.eos_token_id)] if tokenizer.eos_token_id in row else row
        answers.append(tokenizer.decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False))
    return answers
