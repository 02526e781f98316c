"""Three digits and a target: write the digits in any order, each with its sign, so that they make the target.

`make 1 of 4 7 2` is answered by `+ 7 - 4 - 2`. Whether an answer is right is seen at once.
"""

import random
from collections.abc import Sequence
from itertools import permutations, product
from typing import Any

DIGITS, COUNT = range(1, 10), 3
LARGEST = COUNT * 9


def puzzles(count: int, seed: int, held_out: bool) -> list[dict[str, Any]]:
    """Rows with "prompt", "digits" and "target"; a set of digits occurs in training or in tests, not in both.

    A target is the value of a random expression, so that there is an answer.
    """
    draws, chosen = random.Random(seed), list[dict[str, Any]]()
    while len(chosen) < count:
        digits = draws.choices(DIGITS, k=COUNT)
        for_tests = int("".join(map(str, sorted(digits)))) % 7 < 2
        if for_tests == held_out:
            target = value(expression(digits, draws))
            if target is not None and 0 <= target <= LARGEST:
                prompt = f"make {target} of {' '.join(map(str, digits))}"
                chosen.append({"prompt": prompt, "digits": digits, "target": target})
    return chosen


def expression(digits: Sequence[int], draws: random.Random) -> str:
    """The digits in random order with random signs."""
    return " ".join(f"{draws.choice('+-')} {digit}" for digit in draws.sample(list(digits), len(digits)))


def value(text: str) -> int | None:
    """What an expression adds up to; None where it is none."""
    words = text.split()
    if not words or len(words) % 2 or any(word not in ("+", "-") for word in words[::2]):
        return None
    if not all(word.isdecimal() for word in words[1::2]):
        return None
    signs = [1 if word == "+" else -1 for word in words[::2]]
    return sum(sign * int(word) for sign, word in zip(signs, words[1::2], strict=True))


def expressions(digits: Sequence[int], target: int) -> list[str]:
    """All right answers, in a fixed order."""
    found = {
        " ".join(f"{sign} {digit}" for sign, digit in zip(signs, order, strict=True))
        for order in permutations(digits)
        for signs in product("+-", repeat=len(digits))
    }
    return sorted(text for text in found if value(text) == target)


def is_right(text: str, digits: Sequence[int], target: int) -> bool:
    """Whether an expression has exactly the digits and makes the target."""
    return sorted(text.split()[1::2]) == sorted(map(str, digits)) and value(text) == target
