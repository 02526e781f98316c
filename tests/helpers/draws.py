"""What tests may expect of drawn cases: a property that a seed was searched for, a count within five deviations."""

from collections.abc import Callable


def first_seed(holds: Callable[[int], bool], seed: int = 0) -> int:
    """The first of a hundred seeds with which a drawn case has a property that a test needs.

    What is drawn differs between processors, and a test that hopes for the property fails on some of them.

    Args:
        holds: Whether the case of a seed has the property.
        seed: The first one that is tried.
    """
    return next(other for other in range(seed, seed + 100) if holds(other))


def near_share(count: float, draws: float, share: float) -> bool:
    """Whether so many of independent draws are within five standard deviations of a share of them.

    Of 1.7 million counts one is not.
    """
    return bool(abs(count - draws * share) <= 5 * (draws * share * (1 - share)) ** 0.5)
