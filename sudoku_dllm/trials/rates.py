"""Learning rates of arms on the command line, in place of those chosen for them."""

from collections.abc import Mapping, Sequence


def chosen_rates(known: Mapping[str, float], words: Sequence[str]) -> dict[str, float]:
    """The rate of each arm.

    Args:
        known: The rates chosen, by arm.
        words: Others, as ARM=RATE each.

    Raises:
        ValueError: A word is no such thing, its arm is unknown, or its rate does not lie between 0 and 1.
    """
    rates = dict(known)
    for word in words:
        arm, _, number = word.partition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = 0.0
        if arm not in known or not 0 < rate < 1:
            raise ValueError(
                f"--rates {word}: give ARM=RATE, e.g. {next(iter(known))}=1e-4, with an arm of {', '.join(known)} and "
                "a rate below 1"
            )
        rates[arm] = rate
    return rates
