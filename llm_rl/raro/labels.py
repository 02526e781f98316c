"""What a critique means: its label, which no answer that it quotes can turn. See docs/raro.md.

A critic writes a label as `[Answer 1]`, `[Answer 2]` or `[Tie]`; the last one that it wrote itself counts. An answer
may hold such a string, or tell the critic what to write; so what is quoted does not count, and what a critic is shown
of an answer holds none (`escape_answer`). All is linear in the length of the text.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

from llm_rl.raro.delimiters import edited, seen


class Label(StrEnum):
    """Whose answer a critique takes for the expert's."""

    EXPERT = "expert"
    POLICY = "policy"
    TIE = "tie"


_CORE = r"(?:(?ai:answer)[\s:#_*-]*[12]|(?ai:tie))"
_LABEL = re.compile(rf"\[[\s*_]*{_CORE}[\s*_.]*\]")
_LABEL_START = re.compile(rf"\[(?=[\s*_]*{_CORE})")
_LABEL_END = re.compile(rf"{_CORE}[\s*_.]*\]")
_SECTION = re.compile(r"</?answer_[12]")
_SECTION_TAG = re.compile(r"</?answer_[12]/?>")
_BESIDE = re.compile(
    r"(?:[\s*_,;/|&+•·‣◦–—-]|[0-9]+[.)]|(?:and|or|nor|versus|vs|with|to|against|over|than)\b\.?)*", re.IGNORECASE
)
"""What stands between labels that are side by side."""
_ITEM = re.compile(r"\s*(?:[*+•·‣◦–—-]|[0-9]+[.)])\s+[*_]*")
_WITHIN_WORD = re.compile(r"(?<=\w)(?=\w)")


def escape_answer(answer: str) -> str:
    """An answer as a critic is shown it: neither it nor a part of it is a label, or ends its section of the prompt.

    `[Answer 1]` becomes `(Answer 1)`, for the expert's answer and the policy's alike, as do half of one and the tags of
    the default critic template, however they are written (`llm_rl.raro.delimiters.seen`); all else stays as it is. A
    bracket more on one side of a copy makes no label.
    """
    shown, indices = seen(answer)
    opening = {indices[found.start()]: "(" for one in (_LABEL_START, _SECTION) for found in one.finditer(shown)}
    closing = {indices[found.end() - 1]: ")" for one in (_LABEL_END, _SECTION_TAG) for found in one.finditer(shown)}
    return edited(answer, opening | closing)


def parse_label(text: str, expert_first: bool, answers: Sequence[str] = ()) -> Label | None:
    """The label of a critique: what the last well-formed one that is not quoted in it means.

    Well-formed is `[Answer 1]`, `[Answer 2]` or `[Tie]` in square brackets, in any case, with spaces, `*` and `_`
    inside, and `:`, `#` or `-` before the number; "answer 1" in running text is none. Quoted is what stands in
    quotation marks, in code, in a block quote, or in a copy of the sections that the default template puts answers in.
    Different ones side by side (`[Answer 1], [Answer 2], or [Tie]`, `[Answer 1] and [Answer 2]`, items of a list)
    compare or repeat the instruction and choose nothing.

    There is no label where the last one

    - lies in a literal copy of an answer: whether the critic copied it or chose the same words cannot be told. To count
      it, or to go back to an earlier one that it may have replaced, would let an answer turn the label; this way it can
      make a critique unparsable at most.
    - has a different one on the line before or after it, both alone: `[Tie]`, and below it `[Answer 1]`.

    Args:
        text: What the critic wrote.
        expert_first: Whether Answer 1 was the expert's.
        answers: Both answers, and what else a critic may quote, not escaped: escaped ones hold no label. One without
            letter or digit beyond a label cannot be told from the critic's own and is not looked for.

    Returns:
        The label, None where there is none. No text makes it raise.
    """
    # What the critic wrote itself, and chose.
    quoted = quoted_spans(text)
    own = [found for found in _LABEL.finditer(text) if not _lies_in(found, quoted)]
    chosen = [found for run in _runs(own, 0) if len(_meanings(run, expert_first)) == 1 for found in run]

    # The last one, if no answer may have put it there and its neighbors agree.
    if not chosen or any(_in_copy(chosen[-1], answer.strip()) for answer in answers):
        return None
    meanings = _meanings(_runs(chosen, 1)[-1], expert_first)
    return meanings.pop() if len(meanings) == 1 else None


def _meanings(run: Sequence[re.Match[str]], expert_first: bool) -> set[Label]:
    one, two = (Label.EXPERT, Label.POLICY) if expert_first else (Label.POLICY, Label.EXPERT)
    return {one if "1" in found[0] else two if "2" in found[0] else Label.TIE for found in run}


def _lies_in(found: re.Match[str], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a written label lies in one of the spans, which are in order and do not overlap."""
    place = bisect_right(spans, found.start(), key=lambda span: span[0])
    return place > 0 and found.end() <= spans[place - 1][1]


def _runs(found: Sequence[re.Match[str]], line_breaks: int) -> list[list[re.Match[str]]]:
    """Written labels, those side by side together; of `line_breaks` alone so many may part two at most."""
    runs = [[first] for first in found[:1]]
    for left, right in pairwise(found):
        if _beside(left, right, line_breaks):
            runs[-1].append(right)
        else:
            runs.append([right])
    return runs


def _beside(left: re.Match[str], right: re.Match[str], line_breaks: int) -> bool:
    """Whether two written labels are side by side, see `_runs`; an item of a list is beside another item only."""
    text = left.string
    between = text[left.end() : right.start()]
    if not _BESIDE.fullmatch(between):
        return False
    if "\n" not in between:
        return True
    if _ITEM.fullmatch(between.rpartition("\n")[2]):
        return _ITEM.fullmatch(text, text.rfind("\n", 0, left.start()) + 1, left.start()) is not None
    bare = not between.translate({ord("*"): None, ord("_"): None}).strip()
    return not bare or between.count("\n") <= line_breaks


def _in_copy(found: re.Match[str], answer: str) -> bool:
    """Whether a written label lies in a literal copy of an answer; a copy ends with a word, not within one."""
    if not any(map(str.isalnum, _LABEL.sub("", answer))):
        return False
    text = found.string
    starts = (found.start() - within.start() for within in _LABEL.finditer(answer))
    return any(
        start >= 0
        and not _WITHIN_WORD.match(text, start)
        and not _WITHIN_WORD.match(text, start + len(answer))
        and text.startswith(answer, start)
        for start in starts
    )


_EMPTY_LINE = r"(?P<empty>\n[^\S\n]*(?=\n))"
_PARAGRAPH = r'(?:[^"\n]|\n(?![^\S\n]*\n))+'  # without straight quotation marks
_QUOTATION = re.compile(
    rf"""
    (?P<whole> ^[ \t]*>[^\n]*
             | (?<!\w)"{_PARAGRAPH}"(?!\w)
             | (?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))+'(?!\w) )
    | [“„«»‹‘‚「『] | `+ | ~{{3,}} | (?i:<answer_[12]>)
    """,
    re.MULTILINE | re.VERBOSE,
)
_QUOTED_CODE = re.compile(rf"(?P<indent>^[ \t]*)?(?P<run>`+|~{{3,}})|{_EMPTY_LINE}", re.MULTILINE)
_QUOTED_SECTION = re.compile(r"<(?P<end>/?)answer_(?P<number>[12])>", re.IGNORECASE)
_QUOTATION_MARK = re.compile(rf"[“”„«»‹›‘‚「」『』]|’(?!\w)|{_EMPTY_LINE}|\n")
_CLOSES = {"”": "“„", "“": "„", "»": "«", "«": "»", "›": "‹", "’": "‘", "‘": "‚", "」": "「", "』": "『"}
"""Closing marks and what they close; some open as well, where there is nothing to close."""
_ONE_LINE = "‘‚"


def quoted_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each quotation of a text, in order, without overlap.

    Quotations stand in quotation marks, code, block quotes and copies of the default template's sections. Of two that
    overlap, the one that begins first counts.

    Straight marks end where the next one of the kind stands that no word follows; typographic ones nest. Both, and
    inline code, end within the paragraph, single marks within the line. A code fence without an end goes on to the end
    of the text; any other mark without an end quotes nothing.
    """
    ends = _code_ends(text) | _section_ends(text) | _mark_ends(text)
    spans, position = [], 0
    while found := _QUOTATION.search(text, position):
        end = found.end() if found["whole"] else ends.get(found.start())
        if end is not None:
            spans.append((found.start(), end))
        position = found.end() if end is None else end
    return spans


def _code_ends(text: str) -> dict[int, int]:
    """Where code ends, by where it begins: after the next run of as many ticks or tildes."""
    ends: dict[int, int] = {}
    following: dict[str, int] = {}
    # From the last to the first: what a run of ticks ends with has then been seen.
    for found in reversed(list(_QUOTED_CODE.finditer(text))):
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
    for found in reversed(list(_QUOTED_SECTION.finditer(text))):
        if found["end"]:
            following[found["number"]] = found.end()
        elif found["number"] in following:
            ends[found.start()] = following[found["number"]]
    return ends


def _mark_ends(text: str) -> dict[int, int]:
    """Where quotations in typographic marks end, by where they begin."""
    ends: dict[int, int] = {}
    opened: dict[str, list[int]] = {mark: [] for marks in _CLOSES.values() for mark in marks}
    for found in _QUOTATION_MARK.finditer(text):
        mark = found[0]
        if mark[0] == "\n":
            for kind in opened if found["empty"] else _ONE_LINE:
                opened[kind].clear()
        # A closing mark ends the innermost quotation that it may close; what closes nothing may open one.
        elif begun := [opened[kind] for kind in _CLOSES.get(mark, "") if opened[kind]]:
            ends[max(begun, key=lambda starts: starts[-1]).pop()] = found.end()
        elif mark in opened:
            opened[mark].append(found.start())
    return ends
