"""The critic's memory: pairs of earlier steps, bounded, seeded, and saved with checkpoints. Source: seed 002, 2.2 B."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from llm_rl.core._checks import check_choice

ReplayMode = Literal["fifo", "reservoir"]


@dataclass(frozen=True)
class Pair:
    """An expert's and a policy's answer to one question, both without hidden reasoning.

    Attributes:
        question_id: Tells questions apart.
        question: Its text.
        expert_answer: Of the data set.
        policy_answer: Sampled.
        step: Optimizer steps done when it was sampled.
    """

    question_id: str
    question: str
    expert_answer: str
    policy_answer: str
    step: int


def question_key(question: str, expert_answer: str) -> str:
    """An identifier for a question of a data set that gives it none: a hash of both texts."""
    return hashlib.sha256(repr((question, expert_answer)).encode()).hexdigest()[:16]


class ReplayBuffer:
    """At most `capacity` pairs. What is drawn depends on the seed and on what was added and drawn before.

    The texts of a question are held once, however many pairs it has, so memory is about the bytes of the policy's
    answers (`text_bytes`): 50,000 answers of 4 kB take 200 MB.

    Args:
        capacity: Largest number of pairs, ≥ 1.
        mode: "fifo" keeps the latest; "reservoir" a uniform sample of all that were ever added (algorithm R, Vitter
            1985).
        seed: Of what is drawn and, in a reservoir, kept.

    Raises:
        ValueError: The capacity is below 1 or the mode unknown.
    """

    def __init__(self, capacity: int, mode: ReplayMode = "fifo", seed: int = 0) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity!r}; it must be 1 or greater")
        check_choice("mode", mode, ReplayMode)
        self.capacity, self.mode = capacity, mode
        self._generator = np.random.default_rng(seed)
        self._entries: list[tuple[str, str, int]] = []  # question_id, policy_answer, step
        self._questions: dict[str, tuple[str, str]] = {}  # question_id → question, expert_answer
        self._uses: dict[str, int] = {}
        self._added = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def pairs(self) -> list[Pair]:
        """All that are held, in no order that means anything."""
        return [self._pair(entry) for entry in self._entries]

    @property
    def text_bytes(self) -> int:
        """UTF-8 bytes of all texts that are held."""
        texts = [text for both in self._questions.values() for text in both] + [entry[1] for entry in self._entries]
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)

    def add(self, pairs: Sequence[Pair]) -> None:
        """Store pairs in order; where there is no room one takes the place of another, or in a reservoir of none.

        Raises:
            ValueError: A pair gives other texts for a question than one that is held.
        """
        for pair in pairs:
            self._add(pair)

    def sample(self, count: int) -> list[Pair]:
        """Different pairs, drawn uniformly: `count`, or all in a random order where there are fewer.

        Raises:
            ValueError: The count is negative.
        """
        if count < 0:
            raise ValueError(f"count is {count}; it must be 0 or greater")
        drawn = self._generator.permutation(len(self))[:count]
        return [self._pair(self._entries[index]) for index in drawn]

    def state_dict(self) -> dict[str, Any]:
        """All that continuing needs, in types that `storage.save_record` takes."""
        names = list(self._questions)
        index = {name: position for position, name in enumerate(names)}
        return {
            "capacity": self.capacity,
            "mode": self.mode,
            "added": self._added,
            "generator": self._generator.bit_generator.state,
            "question_ids": names,
            "questions": [self._questions[name][0] for name in names],
            "expert_answers": [self._questions[name][1] for name in names],
            "policy_answers": [answer for _, answer, _ in self._entries],
            "question_of": np.array([index[name] for name, _, _ in self._entries], dtype=np.int64),
            "steps": np.array([step for _, _, step in self._entries], dtype=np.int64),
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
        names, texts = state["question_ids"], zip(state["questions"], state["expert_answers"], strict=True)
        self._questions = dict(zip(names, texts, strict=True))
        owners = [names[index] for index in state["question_of"].tolist()]
        self._entries = list(zip(owners, state["policy_answers"], state["steps"].tolist(), strict=True))
        self._uses = dict(Counter(owners))
        self._added = state["added"]
        self._generator.bit_generator.state = state["generator"]

    def _pair(self, entry: tuple[str, str, int]) -> Pair:
        name, answer, step = entry
        return Pair(name, *self._questions[name], answer, step)

    def _add(self, pair: Pair) -> None:
        texts = (pair.question, pair.expert_answer)
        if self._questions.get(pair.question_id, texts) != texts:
            raise ValueError(
                f"question {pair.question_id!r} was added with other texts before; give each question and expert "
                "answer a question_id of its own"
            )
        place = self._added % self.capacity
        if self.mode == "reservoir" and self._added >= self.capacity:
            place = int(self._generator.integers(self._added + 1))
        self._added += 1
        if place >= self.capacity:
            return
        self._questions[pair.question_id] = texts
        self._uses[pair.question_id] = self._uses.get(pair.question_id, 0) + 1
        entry = (pair.question_id, pair.policy_answer, pair.step)
        if place == len(self._entries):
            self._entries.append(entry)
            return
        replaced = self._entries[place][0]
        self._entries[place] = entry
        self._uses[replaced] -= 1
        if not self._uses[replaced]:
            del self._uses[replaced], self._questions[replaced]
