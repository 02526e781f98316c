"""Types of the command's options: what is not within their bounds is refused before anything is imported or done."""

from argparse import ArgumentTypeError
from collections.abc import Callable

LARGEST_SEED = 2**64 - 1
"""What the generator of puzzles and torch's generators take."""
LONGEST_DELAY = 3600.0


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """The type of a whole number from `low` to `high`; None is no bound."""
    bounds = f"{low:,} or larger" if high is None else f"from {low:,} to {high:,}"

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is no whole number; give one {bounds}") from None
        if value < low or (high is not None and value > high):
            raise ArgumentTypeError(f"{text} is out of range; give a whole number {bounds}")
        return value

    return number


def seconds(text: str) -> float:
    """The type of a time to wait."""
    try:
        value = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no number; give seconds from 0 to {LONGEST_DELAY:,.0f}") from None
    if not 0 <= value <= LONGEST_DELAY:
        raise ArgumentTypeError(f"{text} is out of range; give seconds from 0 to {LONGEST_DELAY:,.0f}")
    return value


def not_empty(text: str) -> str:
    """The type of a path or a name."""
    if not text.strip():
        raise ArgumentTypeError("it is empty; give a path or a name, or leave the option out")
    return text
