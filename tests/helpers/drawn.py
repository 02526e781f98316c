"""Cases that are drawn until one has what a test is about.

What a seed gives depends on how a processor rounds: a test must not count on an error in a roll-out, on a group with
spread or on a term that is not 0 because a seed gave it once. It asks for a case that has it, and asserts what holds of
every such case.
"""

from collections.abc import Callable
from typing import TypeVar

Case = TypeVar("Case")


def first_with(has: Callable[[Case], bool], draw: Callable[[int], Case], *, seed: int, tries: int = 20) -> Case:
    """The first case with a property among those drawn from a seed and the seeds after it.

    Args:
        has: Whether a case has the property.
        draw: Makes the case of a seed.
        seed: The first seed.
        tries: How many seeds are tried.

    Raises:
        AssertionError: No case has it.
    """
    for number in range(seed, seed + tries):
        if has(case := draw(number)):
            return case
    raise AssertionError(f"no case of seeds {seed} to {seed + tries - 1} has what the test is about")
