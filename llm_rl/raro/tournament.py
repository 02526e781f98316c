"""Choosing one of several answers by comparing them in pairs: the critic as a judge at inference.

Answers of a question meet in a tournament, and what wins is the answer that is given. Source: arXiv:2511.21667, where
a trained critic so chooses among the policy's answers. All questions play a round together, so that a judge is asked
for as many matches at once as there are.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


class Match(NamedTuple):
    """Two answers of a question that are compared.

    Attributes:
        question: The question's number.
        left: Number of an answer to it.
        right: Number of another one.
    """

    question: int
    left: int
    right: int


Judge = Callable[[Sequence[Match]], Sequence[float]]
"""Points of the left answer in each match: 1 where it is the better one, 0 where the right one is, 0.5 for a tie."""


def single_elimination(counts: Sequence[int], judge: Judge, seed: int = 0) -> list[int]:
    """The winners of tournaments in which who loses is out; n answers play n − 1 matches.

    The places in the bracket are drawn. In a tie the one whose place comes first goes on, which is as good as a coin.
    Where the number of answers left is odd, the last one waits for the next round.

    Args:
        counts: How many answers each question has.
        judge: Compares answers.
        seed: Random seed of the brackets.

    Returns:
        The number of the winning answer of each question.

    Raises:
        ValueError: A question has no answer, or the judge gives other than points.
    """
    left = _drawn(counts, seed)
    # A round: neighbors in the bracket meet, of all questions at once, and who is better or has none goes on.
    while any(len(answers) > 1 for answers in left):
        matches = [
            Match(question, *answers[place : place + 2])
            for question, answers in enumerate(left)
            for place in range(0, len(answers) - 1, 2)
        ]
        points = iter(_asked(judge, matches))
        left = [
            [
                answers[place] if place + 1 == len(answers) or next(points) >= 0.5 else answers[place + 1]
                for place in range(0, len(answers), 2)
            ]
            for answers in left
        ]
    return [answers[0] for answers in left]


def swiss(counts: Sequence[int], judge: Judge, rounds: int | None = None, seed: int = 0) -> list[int]:
    """The winners of tournaments in which all play every round, against others of as many points.

    In a round the answers stand by their points, equal ones as drawn, and each plays the next one that it has not met;
    where it has met all of them, the next one. Who is left over has a tie's half point, and is not left over again
    before the others were. Of those with most points the one whose opponents have most wins, and of equal ones the one
    that was drawn first.

    Args:
        counts: How many answers each question has.
        judge: Compares answers.
        rounds: Rounds to play; None: the fewest after which one of n can be unbeaten alone, ⌈log₂ n⌉.
        seed: Random seed of the draw.

    Returns:
        The number of the winning answer of each question.

    Raises:
        ValueError: A question has no answer, `rounds` is below 1, or the judge gives other than points.
    """
    if rounds is not None and rounds < 1:
        raise ValueError(f"rounds={rounds} must be 1 or greater, or None")
    tables = [_Table(answers) for answers in _drawn(counts, seed)]
    needed = [(count - 1).bit_length() if rounds is None else rounds for count in counts]
    for number in range(max(needed, default=0)):
        pairs = [table.pairs() if number < most else [] for table, most in zip(tables, needed, strict=True)]
        matches = [Match(question, *pair) for question, of_question in enumerate(pairs) for pair in of_question]
        for match, points in zip(matches, _asked(judge, matches), strict=True):
            tables[match.question].record(match.left, match.right, points)
    return [table.winner() for table in tables]


def majority_vote(answers: Sequence[str]) -> int:
    """The number of the first of those answers that occur most often, spaces around them apart.

    Raises:
        ValueError: There is no answer.
    """
    if not answers:
        raise ValueError("there is no answer to vote for; give at least one")
    counts = Counter(answer.strip() for answer in answers)
    return max(range(len(answers)), key=lambda place: counts[answers[place].strip()])


class _Table:
    """The standings of a Swiss tournament of answers, in the order of their draw."""

    def __init__(self, drawn: Sequence[int]) -> None:
        self.drawn = drawn
        self.points = dict.fromkeys(drawn, 0.0)
        self.met: dict[int, list[int]] = {answer: [] for answer in drawn}
        self.left_over = dict.fromkeys(drawn, 0)

    def pairs(self) -> list[tuple[int, int]]:
        """Who plays whom in the next round; who is left over has half a point for it."""
        waiting = sorted(self.drawn, key=lambda answer: -self.points[answer])  # stable: equal ones as drawn
        if len(waiting) % 2:
            last = min(reversed(waiting), key=lambda answer: self.left_over[answer])
            waiting.remove(last)
            self.left_over[last] += 1
            self.points[last] += 0.5
        found = []
        while waiting:
            first = waiting.pop(0)
            fresh = [answer for answer in waiting if answer not in self.met[first]]
            second = (fresh or waiting)[0]
            waiting.remove(second)
            found.append((first, second))
        return found

    def record(self, left: int, right: int, points: float) -> None:
        """Take down a match."""
        for one, other, gained in ((left, right, points), (right, left, 1 - points)):
            self.points[one] += gained
            self.met[one].append(other)

    def winner(self) -> int:
        """Who stands first."""
        strength = {answer: sum(self.points[other] for other in self.met[answer]) for answer in self.drawn}
        return max(self.drawn, key=lambda answer: (self.points[answer], strength[answer]))


def _drawn(counts: Sequence[int], seed: int) -> list[list[int]]:
    """The answers of each question in an order that depends on the seed and the question's number."""
    if empty := [question for question, count in enumerate(counts) if count < 1]:
        raise ValueError(f"questions {empty} have no answer to choose from; leave them out")
    return [
        np.random.default_rng((seed, question)).permutation(count).tolist() for question, count in enumerate(counts)
    ]


def _asked(judge: Judge, matches: Sequence[Match]) -> Sequence[float]:
    """The points of matches."""
    points = judge(matches) if matches else []
    if len(points) != len(matches) or not all(0 <= each <= 1 for each in points):
        raise ValueError(f"the judge gave {list(points)[:8]} for {len(matches)} matches; give each a number in [0, 1]")
    return points
