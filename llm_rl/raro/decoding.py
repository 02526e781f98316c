"""Completions as texts, where the tags of hidden reasoning or the critic's labels may be special tokens."""

from collections.abc import Sequence
from typing import Any

from llm_rl.raro.verdict import parse_judgment


class CompletionDecoder:
    """Decodes as the tokenizer does without special tokens, but keeps those that a tag or a judgment is made of.

    Where a tokenizer has `</think>` or `[Tie]` as special tokens, dropping them all would show the hidden reasoning as
    part of the answer, and leave no label.

    Args:
        tokenizer: A tokenizer of transformers.
        tags: Start and end tag of hidden reasoning.
    """

    def __init__(self, tokenizer: Any, tags: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        special = {index: str(token) for index, token in tokenizer.added_tokens_decoder.items() if token.special}
        special |= dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
        ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
        self._dropped = {
            index
            for index, text in special.items()
            if index in ends
            or not (any(text in tag or tag in text for tag in tags) or parse_judgment(text) is not None)
        }

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text.

        Args:
            token_ids: The token ids of a completion.
            skip_special_tokens: Whether to drop end tokens and the like; False drops nothing.
        """
        kept = [index for index in token_ids if not (skip_special_tokens and index in self._dropped)]
        return str(self._tokenizer.decode(kept, skip_special_tokens=False))
