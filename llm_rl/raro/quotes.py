"""Where a text quotes: in quotation marks, code, block quotes and copies of the default template's sections.

Of two quotations that overlap, the one that begins first counts. All is linear in the length of the text.
"""

import re

_EMPTY_LINE = r"(?P<empty>\n[^\S\n]*(?=\n))"
_PARAGRAPH = r'(?:[^"\n]|\n(?![^\S\n]*\n))+'  # without straight quotation marks
_OPENING = re.compile(
    rf"""
    (?P<whole> ^[ \t]*>[^\n]*
             | (?<!\w)"{_PARAGRAPH}"(?!\w)
             | (?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))+'(?!\w) )
    | [“„«»‹‘‚「『] | `+ | ~{{3,}} | (?i:<answer_[12]>)
    """,
    re.MULTILINE | re.VERBOSE,
)
_CODE = re.compile(rf"(?P<indent>^[ \t]*)?(?P<run>`+|~{{3,}})|{_EMPTY_LINE}", re.MULTILINE)
_SECTION = re.compile(r"<(?P<end>/?)answer_(?P<number>[12])>", re.IGNORECASE)
_MARK = re.compile(rf"[“”„«»‹›‘‚「」『』]|’(?!\w)|{_EMPTY_LINE}|\n")
_CLOSES = {"”": "“„", "“": "„", "»": "«", "«": "»", "›": "‹", "’": "‘", "‘": "‚", "」": "「", "』": "『"}
"""Closing marks and what they close; some open as well, where there is nothing to close."""
_ONE_LINE = "‘‚"


def quoted_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each quotation, in order, without overlap.

    Straight marks end where the next one of the kind stands that no word follows; typographic ones nest. Both, and
    inline code, end within the paragraph, single marks within the line. A code fence without an end goes on to the end
    of the text; any other mark without an end quotes nothing.
    """
    ends = _code_ends(text) | _section_ends(text) | _mark_ends(text)
    spans, position = [], 0
    while found := _OPENING.search(text, position):
        end = found.end() if found["whole"] else ends.get(found.start())
        if end is not None:
            spans.append((found.start(), end))
        position = found.end() if end is None else end
    return spans


def _code_ends(text: str) -> dict[int, int]:
    """Where code ends, by where it begins: after the next run of as many ticks or tildes."""
    ends: dict[int, int] = {}
    following: dict[str, int] = {}
    for found in reversed(list(_CODE.finditer(text))):
        run = found["run"]
        if found["empty"]:
            following.pop("`", None)
            following.pop("``", None)
            continue
        if run in following:
            ends[found.start("run")] = following[run]
        elif len(run) >= 3 and found["indent"] is not None:
            ends[found.start("run")] = len(text)
        following[run] = found.end()
    return ends


def _section_ends(text: str) -> dict[int, int]:
    """Where sections of answers end, by where they begin."""
    ends: dict[int, int] = {}
    following: dict[str, int] = {}
    for found in reversed(list(_SECTION.finditer(text))):
        if found["end"]:
            following[found["number"]] = found.end()
        elif found["number"] in following:
            ends[found.start()] = following[found["number"]]
    return ends


def _mark_ends(text: str) -> dict[int, int]:
    """Where quotations in typographic marks end, by where they begin."""
    ends: dict[int, int] = {}
    opened: dict[str, list[int]] = {mark: [] for marks in _CLOSES.values() for mark in marks}
    for found in _MARK.finditer(text):
        mark = found[0]
        if mark[0] == "\n":
            for kind in opened if found["empty"] else _ONE_LINE:
                opened[kind].clear()
        elif begun := [opened[kind] for kind in _CLOSES.get(mark, "") if opened[kind]]:
            ends[max(begun, key=lambda starts: starts[-1]).pop()] = found.end()
        elif mark in opened:
            opened[mark].append(found.start())
    return ends
