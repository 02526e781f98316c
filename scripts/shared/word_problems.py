"""Arithmetic word problems with expert answers, made from a seed, and a check of answers that training need not see.

Rows have "question", "answer" and "result". A problem is a count that a few actions change:

    Ada has 12 shells. She finds 6 more shells. She splits the shells into 3 equal piles and keeps one. …

The expert reasons in one equation a step, in hidden reasoning, then says the result.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np

from llm_rl.raro import extract_answer
from llm_rl.raro.prompts import REASONING_TAGS

Action = Literal["add", "subtract", "multiply", "divide"]
Step = tuple[Action, int]


@dataclass(frozen=True)
class Sizes:
    """How large the numbers of a problem are.

    Attributes:
        largest_number: Largest number that is added or taken away; 2 or more.
        largest_count: Largest count, at first and after each step; 10 or more.

    Raises:
        ValueError: A number is too small for problems.
    """

    largest_number: int = 50
    largest_count: int = 999

    def __post_init__(self) -> None:
        if self.largest_number < 2 or self.largest_count < 10:
            raise ValueError(f"{self} is too small; largest_number must be at least 2 and largest_count at least 10")


DEFAULT_SIZES = Sizes()
PEOPLE = (("Ada", "She"), ("Ben", "He"), ("Cleo", "She"), ("Dan", "He"), ("Eve", "She"), ("Finn", "He"))
THINGS = ("apples", "beads", "cards", "coins", "marbles", "pens", "shells", "stamps")
WORDINGS: dict[Action, tuple[str, str]] = {
    "add": ("{they} finds {n} more {things}.", "A friend gives {name} {n} {things}."),
    "subtract": ("{they} loses {n} of the {things}.", "{they} gives {n} {things} away."),
    "multiply": (
        "{they} trades every one of the {things} for {n} others.",
        "A spell turns each of the {things} into {n}.",
    ),
    "divide": (
        "{they} splits the {things} into {n} equal piles and keeps one pile.",
        "{they} shares the {things} equally among {n} people and is one of them.",
    ),
}
SIGNS: dict[Action, str] = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
SPLITS = ("train", "validation", "test")
SHARES = (0.6, 0.2, 0.2)
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")


class QuestionRow(TypedDict):
    """A row of a data set of word problems.

    Attributes:
        question: Text of the question.
        answer: The expert's answer, with hidden reasoning.
        result: The number, in digits.
    """

    question: str
    answer: str
    result: str


@dataclass(frozen=True)
class WordProblem:
    """A problem before its words.

    Attributes:
        start: How many there are at first.
        steps: What is done with them, and the number in it.
        person: Index into `PEOPLE`.
        thing: Index into `THINGS`.
        wordings: Index into the action's `WORDINGS` for each step.
    """

    start: int
    steps: tuple[Step, ...]
    person: int = 0
    thing: int = 0
    wordings: tuple[int, ...] = ()

    @property
    def values(self) -> list[int]:
        """The count at first and after each step."""
        values = [self.start]
        for action, number in self.steps:
            values.append(apply(action, values[-1], number))
        return values

    @property
    def key(self) -> str:
        """The arithmetic without the words, such as "12 + 6 / 3", read from left to right; splits go by it."""
        return " ".join([str(self.start), *(f"{SIGNS[action]} {number}" for action, number in self.steps)])

    def row(self) -> QuestionRow:
        """Question, expert answer and result."""
        (name, they), things, values = PEOPLE[self.person], THINGS[self.thing], self.values
        wordings = self.wordings or (0,) * len(self.steps)
        told = [
            WORDINGS[action][wording].format(name=name, they=they, things=things, n=number)
            for (action, number), wording in zip(self.steps, wordings, strict=True)
        ]
        lines = [
            f"{before} {SIGNS[action]} {number} = {after}"
            for (action, number), before, after in zip(self.steps, values, values[1:], strict=False)
        ]
        question = [f"{name} has {self.start} {things}.", *told, f"How many {things} does {name} have now?"]
        return {
            "question": " ".join(question),
            "answer": "\n".join([REASONING_TAGS[0], *lines, REASONING_TAGS[1], f"The answer is {values[-1]}."]),
            "result": str(values[-1]),
        }


def apply(action: Action, value: int, number: int) -> int:
    """The count after an action.

    Raises:
        ValueError: A division has a remainder.
    """
    if action == "divide":
        if value % number:
            raise ValueError(f"{value} cannot be split into {number} equal piles; choose a divisor")
        return value // number
    return {"add": value + number, "subtract": value - number, "multiply": value * number}[action]


def draw_problem(
    rng: np.random.Generator, steps: tuple[int, int] = (2, 4), sizes: Sizes = DEFAULT_SIZES
) -> WordProblem:
    """A random problem; all counts are 2 or more, the first at most 40.

    Args:
        rng: Generator that everything is drawn from.
        steps: Fewest and most steps.
        sizes: How large its numbers are.

    Raises:
        ValueError: The range is empty or begins below 1.
    """
    if not 1 <= steps[0] <= steps[1]:
        raise ValueError(f"steps is {steps}; give the fewest, 1 or more, and the most")
    start = value = int(rng.integers(4, min(40, sizes.largest_count) + 1))
    drawn: list[Step] = []
    for _ in range(int(rng.integers(steps[0], steps[1] + 1))):
        choices = _choices(value, sizes)
        action = list(choices)[rng.integers(len(choices))]
        number = int(rng.choice(choices[action]))
        drawn.append((action, number))
        value = apply(action, value, number)
    words = rng.integers(2, size=len(drawn)).tolist()
    return WordProblem(
        start, tuple(drawn), int(rng.integers(len(PEOPLE))), int(rng.integers(len(THINGS))), tuple(words)
    )


def _choices(value: int, sizes: Sizes) -> dict[Action, list[int]]:
    number, count = sizes.largest_number, sizes.largest_count
    choices: dict[Action, list[int]] = {
        "add": list(range(2, min(number, count - value) + 1)),
        "subtract": list(range(2, min(number, value - 2) + 1)),
        "multiply": [factor for factor in range(2, 6) if value * factor <= count],
        "divide": [divisor for divisor in range(2, 10) if value % divisor == 0 and value // divisor >= 2],
    }
    return {action: numbers for action, numbers in choices.items() if numbers}


def split_of(problem: WordProblem) -> str:
    """The split that a problem belongs to, by a hash of its arithmetic: other words for it are in the same one."""
    digest = hashlib.sha256(problem.key.encode()).digest()
    position = int.from_bytes(digest[:8], "big") / 2**64
    return SPLITS[int(np.searchsorted(np.cumsum(SHARES)[:-1], position, side="right"))]


def word_problem_sets(
    counts: tuple[int, int, int], seed: int, steps: tuple[int, int] = (2, 4), sizes: Sizes = DEFAULT_SIZES
) -> dict[str, list[QuestionRow]]:
    """Rows for each split; no arithmetic occurs twice, in a split or across them.

    Args:
        counts: Rows of train, validation and test.
        seed: Any non-negative integer.
        steps: Fewest and most steps of a problem.
        sizes: How large its numbers are.

    Raises:
        ValueError: There are not so many different problems, or `draw_problem` refuses the steps.
    """
    rows: dict[str, list[QuestionRow]] = {split: [] for split in SPLITS}
    wanted = dict(zip(SPLITS, counts, strict=True))
    rng, seen = np.random.default_rng(seed), set[str]()
    for _ in range(1000 + 20 * sum(counts)):
        if all(len(rows[split]) >= wanted[split] for split in SPLITS):
            return rows
        problem = draw_problem(rng, steps, sizes)
        split = split_of(problem)
        if len(rows[split]) < wanted[split] and problem.key not in seen:
            seen.add(problem.key)
            rows[split].append(problem.row())
    found = {split: len(rows[split]) for split in SPLITS}
    raise ValueError(
        f"only {found} of {wanted} different problems turned up; ask for fewer, for more steps or larger numbers"
    )


def correct(answer: str, row: Mapping[str, Any]) -> bool:
    """Whether the last number that an answer says, beyond hidden reasoning, is the row's result.

    Args:
        answer: A completion. No text makes it raise.
        row: A row with "result".
    """
    said = extract_answer(answer)
    numbers = NUMBER.findall(said) if said is not None else []
    return bool(numbers) and float(numbers[-1].replace(",", "")) == float(row["result"])
