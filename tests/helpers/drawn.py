"""Cases that are drawn until one has what a test is about, and counts within five deviations.

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


def first_seed(holds: Callable[[int], bool], seed: int = 0) -> int:
    """The first of a hundred seeds with which a drawn case has a property; it raises what `first_with` does.

    Args:
        holds: Whether the case of a seed has the property.
        seed: The first one that is tried.
    """
    return first_with(holds, int, seed=seed, tries=100)


def near_share(count: float, draws: float, share: float) -> bool:
    """Whether so many of independent draws are within five standard deviations of a share of them.

    Of 1.7 million counts one is not.
    """
    return bool(abs(count - draws * share) <= 5 * (draws * share * (1 - share)) ** 0.5)
