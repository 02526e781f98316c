"""What parts the sections of a critic's prompt, found in an answer however it is written there.

A model reads a tag in full-width letters, with spaces or with characters in it that nobody sees. So texts are looked
through by what is seen of them, and changed where it stands; all else stays as it is.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache

_FIELD = re.compile(r"\{(?:question|answer_[12])\}")
_PIECE = re.compile(r"(</?\w[\w.:-]*)[^<>\n]*>|((?:(?!</?\w[^<>\n]*>)[^\n])+)")
_BLANK = "\u115f\u1160\u2800"  # letters and symbols that are drawn as nothing
MARKS = "\\~^`¦†‡¤"
"""What a delimiter is broken by: the first of these that is in no delimiter and no control token."""


def seen(text: str) -> tuple[str, list[int]]:
    """What is seen of a text, in small letters, and the index in the text that each character of it comes from.

    Left out are spaces, control and format characters, accents and variation selectors; full-width letters, ligatures
    and the like are the plain ones (NFKD).
    """
    pieces = [_seen(character) for character in text]
    return "".join(pieces), [index for index, piece in enumerate(pieces) for _ in piece]


@lru_cache(4096)
def _seen(character: str) -> str:
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    return "".join(part for part in plain if unicodedata.category(part)[0] not in "CMZ" and part not in _BLANK)


def edited(text: str, edits: Mapping[int, str]) -> str:
    """The text with other characters at some indices."""
    return "".join(edits.get(index, character) for index, character in enumerate(text))


def delimiters(template: str) -> list[str]:
    """What parts the fields of a critic's template, as it is seen: each line of it, of a tag `<name …>` its `<name`.

    A word, a number or a single character alone is none, as it would be broken in every answer.
    """
    pieces = [(tag or rest).strip() for part in _FIELD.split(template) for tag, rest in _PIECE.findall(part)]
    found = {seen(piece)[0] for piece in pieces if not piece.isalpha() and not piece.isdigit()}
    return sorted((piece for piece in found if len(piece) > 1), key=len)


def break_delimiters(text: str, parts: Sequence[str], control_tokens: Sequence[str] = ()) -> str:
    r"""The text with a mark before the last character of each delimiter: `### Left:` becomes `### Left\:`.

    `parts` are those of `delimiters`, the shortest first; the mark is in none of them, nor in a control token.
    """
    if not parts:
        return text
    mark = next(mark for mark in MARKS if not any(mark in part for part in (*parts, *control_tokens)))
    shown, indices = seen(text)
    edits = {}
    for found in re.finditer(rf"(?=({'|'.join(map(re.escape, parts))}))", shown):
        first, last = indices[found.start(1)], indices[found.end(1) - 1]
        edits[last] = mark if first == last else mark + text[last]
    return edited(text, edits)
