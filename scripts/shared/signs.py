"""Three digits and a target: write the digits in any order, each with its sign, so that they make the target.

`make 1 of 4 7 2` is answered by `+ 7 - 4 - 2`. Whether an answer is right is seen at once.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any

DIGITS, COUNT = range(1, 10), 3
LARGEST = COUNT * 9


def puzzles(count: int, seed: int, held_out: bool) -> list[dict[str, Any]]:
    """Rows with "prompt", "digits" and "target"; a set of digits occurs in training or in tests, not in both.

    A target is the value of a random expression, so that there is an answer.
    """
    chosen: list[dict[str, Any]] = []
    for digits, draws in _draws(seed):
        if is_held_out(digits) == held_out:
            target = value(expression(digits, draws))
            if target is not None and 0 <= target <= LARGEST:
                prompt = f"make {target} of {' '.join(map(str, digits))}"
                chosen.append({"prompt": prompt, "digits": digits, "target": target})
        if len(chosen) == count:
            break
    return chosen


def is_held_out(digits: Sequence[int]) -> bool:
    """Whether a set of digits is for tests."""
    return int("".join(map(str, sorted(digits)))) % 7 < 2


def _draws(seed: int) -> Iterator[tuple[list[int], random.Random]]:
    draws = random.Random(seed)
    while True:
        yield draws.choices(DIGITS, k=COUNT), draws


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
    return uses(text, digits) and value(text) == target


def uses(text: str, digits: Sequence[int]) -> bool:
    """Whether the digits of an expression are those given, in any order."""
    return sorted(text.split()[1::2]) == sorted(map(str, digits))
