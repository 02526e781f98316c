"""Four digits and a target: write the digits in any order, with + or - between them, so that they make the target.

`make 10 of 4 7 2 5` is answered by `<answer> 7 + 5 + 2 - 4 </answer>`. Whether an answer is right is seen at once, and
no answer to learn from is ever given. The model at the start writes expressions of the given digits that pay no heed
to the target (`start_rows`), and so is right about as often as chance is.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from scripts.tiny_llama import word_tokenizer

DIGITS, COUNT = range(1, 10), 4
TAGS = ["<answer>", "</answer>"]
LARGEST = COUNT * 9
ANSWER_TOKENS = 2 * COUNT + 2
"""Tags, digits and signs, and the end token."""
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
        if (int("".join(map(str, sorted(digits)))) % 7 == 0) == held_out:
            target = value(expression(digits, draws))
            if target is not None and 0 <= target <= LARGEST:
                prompt = f"make {target} of {' '.join(map(str, digits))}"
                chosen.append({"prompt": prompt, "digits": digits, "target": target})
        if len(chosen) == count:
            break
    return chosen


def _draws(seed: int) -> Iterator[tuple[list[int], random.Random]]:
    draws = random.Random(seed)
    while True:
        yield draws.choices(DIGITS, k=COUNT), draws


def expression(digits: Sequence[int], draws: random.Random) -> str:
    """The digits in random order with random signs between them."""
    first, *others = draws.sample(list(digits), len(digits))
    return " ".join([str(first), *(f"{draws.choice('+-')} {digit}" for digit in others)])


def start_rows(rows: Sequence[dict[str, Any]], seed: int) -> list[dict[str, str]]:
    """Each prompt with an expression of its digits, drawn without a look at the target, as "chosen"."""
    draws = random.Random(seed)
    return [
        {"prompt": row["prompt"], "chosen": f"{TAGS[0]} {expression(row['digits'], draws)} {TAGS[1]}"} for row in rows
    ]


def value(text: str) -> int | None:
    """What an expression adds up to; None where it is none."""
    words = text.split()
    if len(words) % 2 == 0 or any(word not in "+-" for word in words[1::2]):
        return None
    if not all(word.isdecimal() for word in words[::2]):
        return None
    signs = [1, *(1 if word == "+" else -1 for word in words[1::2])]
    return sum(sign * int(word) for sign, word in zip(signs, words[::2], strict=True))


def solved(
    completions: Sequence[str], digits: Sequence[Sequence[int]], target: Sequence[int], **kw: Any
) -> list[float]:
    """1 for an answer in its tags that has exactly the digits and makes the target, else 0."""
    return [float(is_right(*each)) for each in zip(completions, digits, target, strict=True)]


def is_right(completion: str, digits: Sequence[int], target: int) -> bool:
    """Whether an answer stands in its tags, has exactly the digits and makes the target."""
    words = completion.split()
    if words[:1] != TAGS[:1] or words[-1:] != TAGS[1:]:
        return False
    inner = words[1:-1]
    return sorted(inner[::2]) == sorted(map(str, digits)) and value(" ".join(inner)) == target
