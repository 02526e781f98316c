"""From tags in a text to the tokens between them.

A tokenizer knows no tags, and text that is decoded and encoded again need not give the sampled ids: so the ids stay as
they were sampled, the place of each in the text comes from decoding them one by one, and tags are looked up in the
text. Source: docs/vapor.md, 'The objective'.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from llm_rl.core._checks import check_choice

Rule = Literal["overlap", "containment"]
REPLACEMENT = "\ufffd"
CONTEXT = 6
"""Tokens before a new window's own ones: enough for spaces that depend on a neighbor and for a character's bytes."""
WINDOW = 24
"""Tokens in a window before it begins anew."""


def check_tags(name: str, tags: Sequence[str]) -> None:
    """Raises `ValueError` unless `tags` is a start and an end tag, two texts that are not empty."""
    if not isinstance(tags, (list, tuple)) or len(tags) != 2 or not all(isinstance(tag, str) and tag for tag in tags):
        raise ValueError(f"{name} is {tags!r}; give a start tag and an end tag, as in ('<A>', '</A>')")


def find_and_map_token_indices(
    full_text: str, token_offsets: Sequence[tuple[int, int]], start_tag: str, end_tag: str, *, rule: Rule = "overlap"
) -> tuple[int, int] | None:
    """The tokens of the first `start_tag … end_tag` in a text, both tags included.

    Tokens and tags need not share boundaries. "overlap" takes every token that holds a character of the span, so none
    at its ends is lost. "containment" is the rule of VAPOR's source: from the first token that starts at or after the
    span's start, to the last that ends at or before its end. There `</REASONING` + `>.` loses the second token, and a
    span whose first token began earlier loses that. The end tag is searched behind the start tag, so the two may be
    equal.

    Args:
        full_text: The decoded text.
        token_offsets: Start and end of each token's characters in it, not decreasing. `(0, 0)` is a token without text,
            such as padding.
        start_tag: The start tag, not empty.
        end_tag: The end tag, not empty.
        rule: "overlap" or "containment".

    Returns:
        `(start, stop)` for slicing the tokens, or None where a tag is missing, the order is wrong, or no token belongs
        to the span.

    Raises:
        ValueError: A tag is empty or the rule is unknown.
    """
    check_choice("rule", rule, Rule)
    found = find_tagged_text(full_text, start_tag, end_tag)
    if found is None:
        return None
    start, end = found
    if rule == "overlap":
        inside = [i for i, (left, right) in enumerate(token_offsets) if left < end and right > start and right > left]
    else:
        inside = [i for i, (left, right) in enumerate(token_offsets) if right > 0 and left >= start and right <= end]
    return (inside[0], inside[-1] + 1) if inside else None


def find_tagged_text(full_text: str, start_tag: str, end_tag: str) -> tuple[int, int] | None:
    """Start and end, in characters, of the first `start_tag … end_tag` in a text, both tags included.

    The end tag is searched behind the start tag. None where a tag is missing or the order is wrong; `ValueError` where
    one is empty.
    """
    if not start_tag or not end_tag:
        raise ValueError(f"start_tag is {start_tag!r} and end_tag {end_tag!r}; a tag must not be empty")
    start = full_text.find(start_tag)
    if start < 0:
        return None
    end_tag_start = full_text.find(end_tag, start + len(start_tag))
    return None if end_tag_start < 0 else (start, end_tag_start + len(end_tag))


class DecodedTokens(NamedTuple):
    """A text, special tokens included, and the start and end of each token's characters in it."""

    text: str
    offsets: list[tuple[int, int]]


def exact_text(tokenizer: Any, token_ids: Sequence[int]) -> str:
    """The text of sampled ids as it is, special tokens included."""
    return str(tokenizer.decode(token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def incremental_offsets(token_ids: Sequence[int], tokenizer: Any) -> DecodedTokens:
    """Decodes sampled ids one after the other and notes which characters each token gave.

    In byte-level vocabularies a character may span several tokens: each of them then gets the whole character. A token
    that gives no character gets an empty range. Where bytes form no character at all, the ranges of their tokens may
    reach over the replacement characters beside theirs.

    Windows of a few tokens are decoded, so time grows with the number of tokens; for a tokenizer whose text depends on
    more than the tokens just before, prefixes are decoded instead, in quadratic time.

    Returns:
        `tokenizer.decode(token_ids)` without clean-up, and one pair of offsets a token; every character belongs to a
        token.
    """
    ids = [int(token) for token in token_ids]
    decode = partial(exact_text, tokenizer)
    whole = decode(ids)
    for window in (WINDOW, len(ids)):
        decoded = _decode_stepwise(ids, decode, window)
        if decoded.text == whole:
            break
    return decoded


def _decode_stepwise(ids: list[int], decode: Callable[[list[int]], str], window: int) -> DecodedTokens:
    """Decodes `ids[anchor : i + 1]` for each i, where the window begins anew at `anchor` once it holds `window` tokens.

    Positions in the window's text plus `base` are positions in the whole text.
    """
    offsets: list[tuple[int, int]] = []
    pending: list[int] = []  # tokens whose last character is not complete, which shows as a replacement character
    parts: list[str] = []
    anchor = base = committed = whole = floor = 0  # no character ends before `floor`, which a new window may have left
    previous = settled = ""  # the window's text, and what it was when its last character was last complete
    for i in range(len(ids)):
        text = decode(ids[anchor : i + 1])
        # A token's characters begin where the text is no longer that before it: it may change earlier ones too.
        kept = _common_prefix(previous, text)
        is_open = text.endswith(REPLACEMENT)
        # Byte fallback shows each byte of an open character, and the characters before it, as replacements.
        complete = max(len(text.rstrip(REPLACEMENT)) or floor, floor) if is_open else len(text)
        # A character that is complete at last ends for all tokens that have had a part in it.
        if complete > whole or not is_open:
            for token in pending:
                offsets[token] = (offsets[token][0], max(offsets[token][1], base + min(kept, complete)))
            pending.clear()
        begins_anew = (len(pending) if is_open else i + 1 - anchor) >= window
        shorter = decode(ids[i + 1 - CONTEXT : i + 1]) if begins_anew else ""
        if is_open:
            start = max(min(kept, complete), floor)
            offsets.append((base + start, base + complete + 1))
            pending.append(i)
            whole = complete
            # Bytes that form no character: the window begins anew among them.
            if shorter and not shorter.strip(REPLACEMENT) and text.endswith(shorter):
                shift = len(text) - len(shorter)
                parts.append(text[committed:shift])
                anchor, base, committed = i + 1 - CONTEXT, base + shift, max(committed - shift, 0)
                text, settled, whole, floor = shorter, "", whole - shift, whole - shift
        else:
            start = max(kept, len(settled)) if text.startswith(settled) else kept
            offsets.append((base + start, base + len(text)))
            if begins_anew:
                parts.append(text[committed:])
                anchor, base, committed = i + 1 - CONTEXT, base + len(text) - len(shorter), len(shorter)
                text = shorter
            settled, whole, floor = text, len(text), len(text)
        previous = text
    length = base + len(previous)
    for token in pending:
        offsets[token] = (offsets[token][0], length)
    return DecodedTokens("".join([*parts, previous[committed:]]), offsets)


def _common_prefix(one: str, other: str) -> int:
    differing = (k for k, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(differing, min(len(one), len(other)))
