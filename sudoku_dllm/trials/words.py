"""The words for an estimate, for forward passes and for a table: shares and their differences are told in points."""

import math
from collections.abc import Sequence

from sudoku_dllm.trials.statistics import Estimate, PassesNeeded


def percent(share: float) -> str:
    """A share in per cent; a dash where it is not known."""
    return "–" if math.isnan(share) else f"{100 * share:.1f}"


def signed(difference: float) -> str:
    """A difference of shares with its sign."""
    return f"{100 * difference:+.1f}"


def share(found: Estimate) -> str:
    """A share with half of its intervals: 62.1 ± 1.8 / ± 3.0."""
    return f"{100 * found.mean:.1f} {_plus_minus(found)}"


def points(found: Estimate) -> str:
    """A difference with half of its intervals: +3.2 ± 1.8 / ± 3.0."""
    return f"{signed(found.mean)} {_plus_minus(found)}"


def _plus_minus(found: Estimate) -> str:
    """Half of the interval over puzzles and, where known, of that over seeds."""
    return " / ".join(f"± {50 * (each[1] - each[0]):.1f}" for each in (found.puzzles, found.seeds) if each is not None)


def interval(ends: tuple[float, float] | None) -> str:
    """The ends of an interval of a difference; a dash where there is none."""
    return "–" if ends is None else f"[{signed(ends[0])}, {signed(ends[1])}]"


def bold(text: str, found: Estimate) -> str:
    """What is told of a difference, in Markdown; bold where neither interval holds 0."""
    return f"**{text}**" if found.excludes_zero else text


def lead(found: Estimate) -> str:
    """A difference with its intervals over problems and, where known, over seeds; bold where neither holds 0."""
    ends = " ".join(interval(each) for each in (found.puzzles, found.seeds) if each is not None)
    return f"{bold(signed(found.mean), found)} {ends}"


def fewest(found: PassesNeeded) -> str:
    """The passes that are needed; "≤" where the cheapest setting of the sweep does."""
    if math.isinf(found.passes):
        return "not reached"
    return f"{'≤ ' * (found.passes <= found.cheapest)}{found.passes:.1f}"


def passes(found: PassesNeeded | None) -> str:
    """The same with the intervals over puzzles and over seeds; a dash where nothing is compared."""
    if found is None:
        return "–"
    if math.isinf(found.puzzles[0]):
        return "not reached"
    ends = ("–" if each is None else f"[{each[0]:.1f}, {each[1]:.1f}]" for each in (found.puzzles, found.seeds))
    return f"{fewest(found)} {' '.join(ends)}".replace("inf", "∞")


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, ending with a line break."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def text_table(widths: Sequence[int], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table for a terminal: the first column begins at the left, the others end at the right."""
    return [
        f"{name:{widths[0]}}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=False))
        for name, *cells in rows
    ]
