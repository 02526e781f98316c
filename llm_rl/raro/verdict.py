"""What a critic said: its judgment in a text, and the label that it stands for. See docs/raro.md.

A judgment is the last `[Answer 1]`, `[Answer 2]` or `[Tie]` that the critic wrote itself. An answer may hold such a
string, or tell the critic what to write; so what is quoted does not count, and what a critic is shown of an answer
holds none (`escape_answer`).
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

from llm_rl.raro.quotes import quoted_spans


class Judgment(StrEnum):
    """What a critic wrote: which of the two answers, in the order it saw them, is the expert's."""

    ANSWER_1 = "answer_1"
    ANSWER_2 = "answer_2"
    TIE = "tie"


class Verdict(StrEnum):
    """The label: whose answer the critic took for the expert's."""

    EXPERT = "expert"
    POLICY = "policy"
    TIE = "tie"


_CORE = r"(?:(?ai:answer)[\s:#_*-]*[12]|(?ai:tie))"
JUDGMENT = re.compile(rf"\[[\s*_]*{_CORE}[\s*_.]*\]")
OPENING = re.compile(rf"\[(?=[\s*_]*{_CORE})")
CLOSING = re.compile(rf"({_CORE}[\s*_.]*)\]")
SECTION = re.compile(r"<(\s*(?:/\s*)?(?ai:answer)_[12]\s*)>")
BESIDE = re.compile(
    r"(?:[\s*_,;/|&+•·‣◦–—-]|[0-9]+[.)]|(?:and|or|nor|versus|vs|with|to|against|over|than)\b\.?)*", re.IGNORECASE
)
"""What stands between judgments that are side by side."""
ITEM = re.compile(r"\s*(?:[*+•·‣◦–—-]|[0-9]+[.)])\s+[*_]*")
WITHIN_WORD = re.compile(r"(?<=\w)(?=\w)")


def escape_answer(answer: str) -> str:
    """An answer as a critic is shown it: neither it nor a part of it is a judgment, or ends its section of the prompt.

    `[Answer 1]` becomes `(Answer 1)`, for the expert's answer and the policy's alike, as do half of one and the tags of
    the default critic template; all else stays as it is. A bracket more on one side of a copy makes no judgment.
    """
    return SECTION.sub(r"(\1)", CLOSING.sub(r"\1)", OPENING.sub("(", answer)))


def parse_judgment(text: str, answers: Sequence[str] = ()) -> Judgment | None:
    """The last well-formed judgment of a critic's text that is not quoted.

    Well-formed is `[Answer 1]`, `[Answer 2]` or `[Tie]` in square brackets, in any case, with spaces, `*` and `_`
    inside, and `:`, `#` or `-` before the number; "answer 1" in running text is none. Quoted is what stands in
    quotation marks, in code, in a block quote, or in a copy of the sections that the default template puts answers in.
    Different ones side by side (`[Answer 1], [Answer 2], or [Tie]`, `[Answer 1] and [Answer 2]`, items of a list)
    compare or repeat the instruction and choose nothing.

    There is no judgment where the last one

    - lies in a literal copy of an answer: whether the critic copied it or chose the same words cannot be told. To count
      it, or to go back to an earlier one that it may have replaced, would let an answer turn the label; this way it can
      make a critique unparsable at most.
    - has a different one on the line before or after it, both alone: `[Tie]`, and below it `[Answer 1]`.

    Args:
        text: What the critic wrote.
        answers: Both answers, and what else a critic may quote, not escaped: escaped ones hold no judgment. One without
            letter or digit beyond a judgment cannot be told from the critic's own and is not looked for.

    Returns:
        The judgment, None where there is none. No text makes it raise.
    """
    quoted = quoted_spans(text)
    own = [found for found in JUDGMENT.finditer(text) if not _lies_in(found, quoted)]
    chosen = [found for run in _runs(own, 0) if len(set(map(_named, run))) == 1 for found in run]
    if not chosen or any(_in_copy(chosen[-1], answer.strip()) for answer in answers):
        return None
    named = set(map(_named, _runs(chosen, 1)[-1]))
    return named.pop() if len(named) == 1 else None


def parse_verdict(text: str, expert_first: bool, answers: Sequence[str] = ()) -> Verdict | None:
    """The label of a critic's text, see `parse_judgment`; None where it is unparsable.

    Args:
        text: What the critic wrote.
        expert_first: Whether Answer 1 was the expert's.
        answers: Texts that a critic may quote, as for `parse_judgment`.
    """
    judgment = parse_judgment(text, answers)
    return None if judgment is None else label(judgment, expert_first)


def label(judgment: Judgment, expert_first: bool) -> Verdict:
    """Whose answer a judgment names, given whether Answer 1 was the expert's."""
    if judgment is Judgment.TIE:
        return Verdict.TIE
    return Verdict.EXPERT if (judgment is Judgment.ANSWER_1) == expert_first else Verdict.POLICY


def _named(found: re.Match[str]) -> Judgment:
    if "1" in found[0]:
        return Judgment.ANSWER_1
    return Judgment.ANSWER_2 if "2" in found[0] else Judgment.TIE


def _lies_in(found: re.Match[str], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a judgment lies in one of the spans, which are in order and do not overlap."""
    place = bisect_right(spans, found.start(), key=lambda span: span[0])
    return place > 0 and found.end() <= spans[place - 1][1]


def _runs(found: Sequence[re.Match[str]], line_breaks: int) -> list[list[re.Match[str]]]:
    """Judgments, those side by side together.

    Args:
        found: Judgments of a text, in order.
        line_breaks: How many line breaks at most may part two that have nothing else between them.
    """
    runs = [[first] for first in found[:1]]
    for left, right in pairwise(found):
        if _beside(left, right, line_breaks):
            runs[-1].append(right)
        else:
            runs.append([right])
    return runs


def _beside(left: re.Match[str], right: re.Match[str], line_breaks: int) -> bool:
    """Whether two judgments are side by side, see `_runs`; an item of a list is beside another item only."""
    text = left.string
    between = text[left.end() : right.start()]
    if not BESIDE.fullmatch(between):
        return False
    if "\n" not in between:
        return True
    if ITEM.fullmatch(between.rpartition("\n")[2]):
        return ITEM.fullmatch(text, text.rfind("\n", 0, left.start()) + 1, left.start()) is not None
    bare = not between.translate({ord("*"): None, ord("_"): None}).strip()
    return not bare or between.count("\n") <= line_breaks


def _in_copy(found: re.Match[str], answer: str) -> bool:
    """Whether a judgment lies in a literal copy of an answer that holds it; a copy ends with a word, not within one."""
    if not any(map(str.isalnum, JUDGMENT.sub("", answer))):
        return False
    text = found.string
    starts = (found.start() - within.start() for within in JUDGMENT.finditer(answer))
    return any(
        start >= 0
        and not WITHIN_WORD.match(text, start)
        and not WITHIN_WORD.match(text, start + len(answer))
        and text.startswith(answer, start)
        for start in starts
    )
