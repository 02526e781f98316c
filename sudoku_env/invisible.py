"""Characters that nobody sees: in text that was copied from elsewhere they keep a grid from being found."""

import unicodedata

NAMED = 3
"""How many characters a message names."""


def invisible_characters(text: str) -> str:
    """The characters of a text that are not seen, as the end of a message; "" where there are none.

    Spaces of other widths (no-break space), zero-width characters, byte order marks, soft hyphens, control and
    direction characters, unusual line ends and variation selectors; not the space, the tab and the usual line ends.

    Returns:
        For example `; invisible: U+200B ZERO WIDTH SPACE at line 1, character 1`. Both are counted from 1.
    """
    found = [
        f"{_name(character)} at line {number}, character {place}"
        for number, line in enumerate(text.splitlines(keepends=True), start=1)
        for place, character in enumerate(line, start=1)
        if (not character.isprintable() and character not in "\t\r\n") or "\ufe00" <= character <= "\ufe0f"
    ]
    if not found:
        return ""
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"; invisible: {', '.join(found[:NAMED])}{more}"


def _name(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()
