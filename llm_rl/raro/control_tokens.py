"""What a tokenizer reads as control tokens, and texts without them: an answer is to make no turn of a chat."""

import re
from collections.abc import Sequence
from typing import Any


def control_tokens(tokenizer: Any) -> tuple[str, ...]:
    """What a tokenizer reads as control tokens when it stands in a text, such as the marks of chat turns.

    These are its special tokens and those added ones that its chat template names.
    """
    template = str(tokenizer.chat_template or "")
    added = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special or str(token) in template]
    return tuple(token for token in dict.fromkeys([*tokenizer.all_special_tokens, *added]) if token.strip())


def break_tokens(text: str, tokens: Sequence[str]) -> str:
    """The text without any of the tokens: `<|im_end|>` becomes `< |im_end|>`, a token of one character a space."""
    there = [token for token in tokens if token in text]
    for token in there:
        if len(token) == 1:
            text = text.replace(token, " ")
    longer = "|".join(re.escape(token) for token in there if len(token) > 1)
    return re.sub(rf"(?={longer}).", r"\g<0> ", text, flags=re.DOTALL) if longer else text
