"""Three digits and a target: write the digits in any order, each with its sign, so that they make the target.

`make 1 of 4 7 2` is answered by `<answer> + 7 - 4 - 2 </answer>`. Whether an answer is right is seen at once, and
no answer to learn from is ever given. The model at the start writes expressions of the given digits that pay no heed
to the target (`start_rows`), and so is right about as often as chance is.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from operator import mul
from typing import Any

from scripts.shared.tiny_llama import word_tokenizer

DIGITS, COUNT = range(1, 10), 3
TAGS = ["<answer>", "</answer>"]
LARGEST = COUNT * 9
ANSWER_TOKENS = 2 * COUNT + 3
"""Tags, signs and digits, and the end token."""
WORDS = ["<end>", "make", "of", "+", "-", *TAGS, *map(str, range(LARGEST + 1))]


def tokenizer() -> Any:
    """A token for each word."""
    return word_tokenizer(WORDS, pad="<end>", end="<end>")


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


def start_rows(rows: Sequence[dict[str, Any]], seed: int) -> list[dict[str, str]]:
    """Each prompt with an expression of its digits, drawn without a look at the target, as "chosen"."""
    draws = random.Random(seed)
    return [
        {"prompt": row["prompt"], "chosen": f"{TAGS[0]} {expression(row['digits'], draws)} {TAGS[1]}"} for row in rows
    ]


def value(text: str) -> int | None:
    """What an expression adds up to; None where it is none."""
    words = text.split()
    if not words or len(words) % 2 or any(word not in ("+", "-") for word in words[::2]):
        return None
    if not all(word.isdecimal() for word in words[1::2]):
        return None
    signs = [1 if word == "+" else -1 for word in words[::2]]
    return sum(sign * int(word) for sign, word in zip(signs, words[1::2], strict=True))


def solved(
    completions: Sequence[str], digits: Sequence[Sequence[int]], target: Sequence[int], **kw: Any
) -> list[float]:
    """1 for an answer in its tags that has exactly the digits and makes the target, else 0."""
    return [float(is_right(*each)) for each in zip(completions, digits, target, strict=True)]


def best_blind_share(rows: Sequence[dict[str, Any]]) -> float:
    """What the best answers that pay no heed to the target would solve: each set's most frequent value."""
    shares = []
    for row in rows:
        values = (sum(map(mul, signs, row["digits"])) for signs in product((1, -1), repeat=COUNT))
        counts = Counter(value for value in values if value >= 0)
        shares.append(max(counts.values()) / counts.total())
    return sum(shares) / len(shares)


def summed_over_targets(rows: Sequence[dict[str, Any]], shares: Sequence[float]) -> float:
    """The shares solved of each target of a set of digits, summed over its targets; the mean over sets.

    Who pays no heed to the target makes one value at a time, and so has a sum of 1 at most, up to chance.

    Args:
        rows: N puzzles.
        shares: `(N,)`, the share of each puzzle's completions that solve it.
    """
    by_set: dict[tuple[int, ...], dict[int, list[float]]] = {}
    for row, share in zip(rows, shares, strict=True):
        targets = by_set.setdefault(tuple(sorted(row["digits"])), {})
        targets.setdefault(row["target"], []).append(share)
    sums = [sum(sum(found) / len(found) for found in targets.values()) for targets in by_set.values()]
    return sum(sums) / len(sums)


def dealt_anew(draws: random.Random) -> Callable[..., list[float]]:
    """A placebo for `solved`: each puzzle's verdicts go to its own completions in random order, and so say nothing.

    Args:
        draws: Source of the order.
    """

    def verdicts_of_others(
        completions: Sequence[str], digits: Sequence[Sequence[int]], target: Sequence[int], **kw: Any
    ) -> list[float]:
        """As often 1 for each puzzle as `solved`."""
        known = solved(completions, digits, target)
        places: dict[tuple[Any, ...], list[int]] = {}
        for place, puzzle in enumerate(zip(map(tuple, digits), target, strict=True)):
            places.setdefault(puzzle, []).append(place)
        verdicts = list(known)
        for own in places.values():
            for place, other in zip(own, draws.sample(own, len(own)), strict=True):
                verdicts[place] = known[other]
        return verdicts

    return verdicts_of_others


def is_right(completion: str, digits: Sequence[int], target: int) -> bool:
    """Whether an answer stands in its tags, has exactly the digits and makes the target."""
    words = completion.split()
    if words[:1] != TAGS[:1] or words[-1:] != TAGS[1:]:
        return False
    inner = words[1:-1]
    return sorted(inner[1::2]) == sorted(map(str, digits)) and value(" ".join(inner)) == target
