"""The critic's memory: pairs of earlier steps, bounded, seeded, and saved with checkpoints. See docs/raro.md."""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from llm_rl.core._checks import check_choice, check_count

ReplayMode = Literal["fifo", "reservoir"]


@dataclass(frozen=True)
class Pair:
    """An expert's and a policy's answer to one question, both without hidden reasoning.

    Attributes:
        question_id: Identifier of the question; several pairs may have it, with other expert answers as well.
        question: The question's text.
        expert_answer: The answer of the data set.
        policy_answer: The answer that the policy sampled.
        step: Optimizer steps done when it was sampled.
    """

    question_id: str
    question: str
    expert_answer: str
    policy_answer: str
    step: int

    @property
    def texts(self) -> tuple[str, str, str]:
        """The question, the expert's answer and the policy's."""
        return self.question, self.expert_answer, self.policy_answer

    @property
    def equal(self) -> bool:
        """Whether both answers are the same text."""
        return self.expert_answer == self.policy_answer


def question_key(question: str, expert_answer: str) -> str:
    """An identifier for a question of a data set that gives it none: a hash of both texts."""
    return hashlib.sha256(repr((question, expert_answer)).encode()).hexdigest()[:16]


class ReplayBuffer:
    """A memory of at most `capacity` pairs. What is drawn depends on the seed and on what was added and drawn before.

    A question's text and expert answer are held once, however many pairs have them, so memory is about the bytes of the
    policy's answers: 50,000 answers of 4 kB take 200 MB.

    Args:
        capacity: Largest number of pairs, ≥ 1.
        mode: "fifo" keeps the latest; "reservoir" a uniform sample of all that were ever added (algorithm R, Vitter
            1985).
        seed: Seed of what is drawn and, in a reservoir, kept.

    Attributes:
        pairs: All that are held, in no order that means anything.

    Raises:
        ValueError: The capacity is below 1 or the mode unknown.
    """

    def __init__(self, capacity: int, mode: ReplayMode = "fifo", seed: int = 0) -> None:
        check_count("capacity", capacity)
        check_choice("mode", mode, ReplayMode)
        self.capacity, self.mode = capacity, mode
        self._generator = np.random.default_rng(seed)
        self.pairs: list[Pair] = []
        self._added = 0

    def __len__(self) -> int:
        return len(self.pairs)

    def add(self, pairs: Sequence[Pair]) -> None:
        """Store pairs in order; where there is no room one takes the place of another, or in a reservoir of none."""
        for pair in pairs:
            self._add(pair)

    def sample(self, count: int) -> list[Pair]:
        """Different pairs, drawn uniformly: `count`, or all in a random order where there are fewer.

        Raises:
            ValueError: The count is negative.
        """
        check_count("count", count, least=0)
        drawn = self._generator.permutation(len(self))[:count]
        return [self.pairs[index] for index in drawn]

    def state_dict(self) -> dict[str, Any]:
        """All that continuing needs, in types that `storage.save_record` takes."""
        keys = [(pair.question_id, pair.question, pair.expert_answer) for pair in self.pairs]
        index = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        return {
            "capacity": self.capacity,
            "mode": self.mode,
            "added": self._added,
            "generator": self._generator.bit_generator.state,
            "question_ids": [question_id for question_id, _, _ in index],
            "questions": [question for _, question, _ in index],
            "expert_answers": [expert_answer for _, _, expert_answer in index],
            "policy_answers": [pair.policy_answer for pair in self.pairs],
            "question_of": np.array([index[key] for key in keys], dtype=np.int64),
            "steps": np.array([pair.step for pair in self.pairs], dtype=np.int64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replace everything by what `state_dict` returned.

        Raises:
            ValueError: It is of a buffer of another capacity or mode.
        """
        if (state["capacity"], state["mode"]) != (self.capacity, self.mode):
            raise ValueError(
                f"the saved buffer has capacity {state['capacity']} and mode {state['mode']!r}, this one "
                f"{self.capacity} and {self.mode!r}; resume with the former"
            )
        keys = list(zip(state["question_ids"], state["questions"], state["expert_answers"], strict=True))
        columns = state["question_of"].tolist(), state["policy_answers"], state["steps"].tolist()
        self.pairs = [_held_once(Pair(*keys[index], *rest)) for index, *rest in zip(*columns, strict=True)]
        self._added = state["added"]
        self._generator.bit_generator.state = state["generator"]

    def _add(self, pair: Pair) -> None:
        place = self._added % self.capacity
        # Algorithm R: the n-th pair takes one of n places, of which no more than `capacity` are there.
        if self.mode == "reservoir" and self._added >= self.capacity:
            place = int(self._generator.integers(self._added + 1))
        self._added += 1
        if place >= self.capacity:
            return
        self.pairs[place : place + 1] = [_held_once(pair)]


def _held_once(pair: Pair) -> Pair:
    """The pair with the one object that stands for each equal text of the data set."""
    shared = [sys.intern(str(text)) for text in (pair.question_id, pair.question, pair.expert_answer)]
    return Pair(shared[0], shared[1], shared[2], pair.policy_answer, pair.step)
