"""Learning rates of arms on the command line, in place of those chosen for them."""

import math
from collections.abc import Mapping, Sequence


def rates_help(known: Mapping[str, float]) -> str:
    """The help of the option that gives arms other rates than those chosen for them, which it tells."""
    told = ", ".join(f"{arm}={rate:g}" for arm, rate in known.items())
    return f"Learning rates of arms, ARM=RATE each, in place of those chosen for them: {told}."


def chosen_rates(known: Mapping[str, float], words: Sequence[str]) -> dict[str, float]:
    """The rate of each arm: those chosen, by arm, in the place of which words ARM=RATE may set others.

    Raises:
        ValueError: A word is no such thing, its arm is unknown, or its rate is not positive and finite.
    """
    rates = dict(known)
    for word in words:
        arm, _, number = word.partition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = 0.0
        if arm not in known or not 0 < rate < math.inf:
            raise ValueError(
                f"--rates {word}: give ARM=RATE, e.g. {next(iter(known))}=1e-4, with an arm of {', '.join(known)} and "
                "a rate above 0"
            )
        rates[arm] = rate
    return rates
