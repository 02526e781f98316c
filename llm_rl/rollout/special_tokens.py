"""A tokenizer's special tokens, broken in texts that are not to begin or end a turn of a chat."""

import re
from collections.abc import Sequence
from typing import Any


def special_tokens(tokenizer: Any) -> tuple[str, ...]:
    """The texts that a tokenizer of transformers reads as special tokens."""
    added = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    return tuple(token for token in dict.fromkeys([*tokenizer.all_special_tokens, *added]) if token.strip())


def break_tokens(text: str, tokens: Sequence[str]) -> str:
    """The text without any of the tokens: `<|im_end|>` becomes `< |im_end|>`, a token of one character a space."""
    there = [token.strip() for token in tokens if token in text]
    for token in there:
        if len(token) == 1:
            text = text.replace(token, " ")
    longer = "|".join(re.escape(token) for token in there if len(token) > 1)
    return re.sub(rf"(?={longer}).", r"\g<0> ", text, flags=re.DOTALL) if longer else text
