"""What a critic said: its judgment in a text, and the label that it stands for. Source: seed 002, 1.2 and 2.2 C.

A judgment is the last `[Answer 1]`, `[Answer 2]` or `[Tie]` that the critic wrote itself. An answer may hold such a
string, or tell the critic what to write; so what is quoted does not count, and what a critic is shown of an answer
holds none (`escape_answer`).
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum


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


_FLAGS = re.IGNORECASE | re.ASCII
_CORE = r"(?:answer[\s:#_*-]*[12]|tie)"
_JUDGMENT = rf"\[[\s*_]*{_CORE}[\s*_.]*\]"
_SEPARATOR = r"\s*(?:,\s*or\b|or\b|[,/|])\s*"
JUDGMENT = re.compile(_JUDGMENT, _FLAGS)
MENU = re.compile(rf"{_JUDGMENT}(?:{_SEPARATOR}{_JUDGMENT})+", _FLAGS)
"""The choices named one after the other, as in the instruction, are no choice."""
OPENING = re.compile(rf"\[(?=[\s*_]*{_CORE})", _FLAGS)
CLOSING = re.compile(rf"({_CORE}[\s*_.]*)\]", _FLAGS)
SECTION = re.compile(r"<(\s*/?\s*answer_[12]\s*)>", _FLAGS)
_LINE = r"(?:[^{0}\n]|\n(?!\s*\n))+"  # anything but a character and an empty line
QUOTED = re.compile(
    "|".join(
        [
            r"(?P<fence>```|~~~)(?s:.*?)(?P=fence)",
            rf"(?P<ticks>`{{1,2}}){_LINE.format('`')}(?P=ticks)",
            r"^[ \t]*>[^\n]*",
            rf"“{_LINE.format('”')}”",
            rf"«{_LINE.format('»')}»",
            r"‘[^’\n]*’(?!\w)",
            rf'(?<!\w)"{_LINE.format(chr(34))}"(?!\w)',
            r"(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))+'(?!\w)",
            r"(?i:<answer_(?P<section>[12])>(?s:.*?)</answer_(?P=section)>)",
        ]
    ),
    re.MULTILINE,
)
BLANK = "\ufffc"
"""Stands for what is cut out, so that what was left and right of it does not become a judgment."""


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
    quotation marks, in code, in a block quote, in a copy of the sections that the default template puts answers in, or
    in a literal copy of an answer; and choices named side by side (`[Answer 1], [Answer 2], or [Tie]`) repeat the
    instruction.

    Args:
        text: What the critic wrote.
        answers: Both answers, and what else a critic may quote, not escaped. One without letter or digit beyond a
            judgment cannot be told from the critic's own and is not looked for; critics see its escaped form.

    Returns:
        The judgment, None where there is none. No text makes it raise.
    """
    text = _without_copies(text, answers)
    text = MENU.sub(BLANK, QUOTED.sub(BLANK, text))
    found = JUDGMENT.findall(text)
    if not found:
        return None
    last = found[-1]
    if "1" in last:
        return Judgment.ANSWER_1
    return Judgment.ANSWER_2 if "2" in last else Judgment.TIE


def parse_verdict(text: str, expert_first: bool, answers: Sequence[str] = ()) -> Verdict | None:
    """The label of a critic's text, see `parse_judgment`; None where it is unparsable.

    Args:
        text: What the critic wrote.
        expert_first: Whether Answer 1 was the expert's.
        answers: See `parse_judgment`.
    """
    judgment = parse_judgment(text, answers)
    return None if judgment is None else label(judgment, expert_first)


def label(judgment: Judgment, expert_first: bool) -> Verdict:
    """Whose answer a judgment names, given whether Answer 1 was the expert's."""
    if judgment is Judgment.TIE:
        return Verdict.TIE
    return Verdict.EXPERT if (judgment is Judgment.ANSWER_1) == expert_first else Verdict.POLICY


def _without_copies(text: str, answers: Iterable[str]) -> str:
    """The text with literal copies of the answers, as they are and as they are shown, cut out.

    A copy that lies within a judgment, or reaches into one, is no copy: the answer "1" does not empty "[Answer 1]".
    """
    copies = {form for answer in answers for form in (answer.strip(), escape_answer(answer).strip())}
    for copy in sorted(copies, key=lambda form: (-len(form), form)):
        if not any(map(str.isalnum, JUDGMENT.sub("", copy))):
            continue
        judgments = [found.span() for found in JUDGMENT.finditer(text)]
        pieces, position, search = [], 0, 0
        while (start := text.find(copy, search)) >= 0:
            end = start + len(copy)
            if any(left < end and start < right and not (start <= left and right <= end) for left, right in judgments):
                search = start + 1
                continue
            pieces += [text[position:start], BLANK]
            position = search = end
        text = "".join([*pieces, text[position:]])
    return text
