"""A tokenizer's special tokens: broken in what a critic is shown, kept in completions where they are tags or labels.

An answer is to make no turn of a chat, so `break_tokens` takes control tokens out of it; but the tags of hidden
reasoning and the critic's labels may be special tokens too, and `CompletionDecoder` does not drop those.
"""

from collections.abc import Sequence
from typing import Any

from llm_rl.raro.labels import parse_label
from llm_rl.rollout.special_tokens import special_tokens


def control_tokens(tokenizer: Any) -> tuple[str, ...]:
    """What a tokenizer reads as control tokens when it stands in a text, such as the marks of chat turns.

    These are its special tokens and those added ones that its chat template names.
    """
    template = str(tokenizer.chat_template or "")
    added = [text for text in map(str, tokenizer.added_tokens_decoder.values()) if text.strip() and text in template]
    return tuple(dict.fromkeys([*special_tokens(tokenizer), *added]))


class CompletionDecoder:
    """Decodes as the tokenizer does without special tokens, but keeps those that a tag or a written label is made of.

    Where a tokenizer has `</think>` or `[Tie]` as special tokens, dropping them all would show the hidden reasoning as
    part of the answer, and leave no label.
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
            or not (any(text in tag or tag in text for tag in tags) or parse_label(text, True) is not None)
        }

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text, without end tokens and the like, or with everything where `skip_special_tokens` is False."""
        kept = [index for index in token_ids if not (skip_special_tokens and index in self._dropped)]
        return str(self._tokenizer.decode(kept, skip_special_tokens=False))
