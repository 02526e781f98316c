"""RARO on signed digits: three digits and a target; an expert shows one right expression, without reasoning.

`make 1 of 4 7 2` is answered by `+ 7 - 4 - 2`, in any order. The start knows the form of an answer and how to add, and
is careless: it writes down up to five random expressions with their running sums and answers with the last one, which
it takes too early, or passes by though it is right (`--stops`), so that a third of its answers is right. As critic it
has learned from the expert's answers beside random expressions: it adds both up and names the expert's. To answer well
is to try until a sum is the target, and to judge is to compare two sums with it; the expert shows neither.

With `--reasoning false` there is no word between question and answer or before a label, and the start heeds no target.

    python -m scripts.raro.digits [--seeds 0 1 2 --expert_answers 256 --cpu_seconds 150]
    python -m scripts.raro.report runs/raro_digits
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken

from llm_rl.raro.prompts import REASONING_TAGS
from llm_rl.raro.start import LABELS
from scripts.raro.demonstration import WORDS, Demonstration, DemonstrationArguments
from scripts.shared.signs import COUNT, LARGEST, expression, puzzles, value
from scripts.shared.tiny_llama import word_tokenizer
from sudoku_dllm.trials.trial import run_trial


@dataclass
class DigitsArguments(DemonstrationArguments):
    """Whether there is reasoning, and how much of it."""

    reasoning: bool = field(default=True, metadata={"help": "Policy and critic write down sums before they decide."})
    critic_reasoning: bool = field(default=True, metadata={"help": "The critic does, where there is reasoning."})
    trials: int = field(default=5, metadata={"help": "Expressions that the policy tries at most."})
    stops: list[float] = field(
        default_factory=lambda: [0.15, 0.9],
        metadata={"help": "Chance that the start answers with an expression, of a wrong one and of a right one."},
    )
    start_steps: int = field(default=2000, metadata={"help": "Supervised steps of the start."})
    batch_size: int = field(default=32, metadata={"help": "Rows in a batch of supervised training."})
    start_examples: int = field(default=20000, metadata={"help": "Answers, and as many critiques, of the start."})
    output_dir: str = field(default="runs/raro_digits", metadata={"help": "Run folder."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trials < 1:
            raise ValueError(f"trials={self.trials} must be 1 or greater")
        if len(self.stops) != 2 or not all(0 <= chance <= 1 for chance in self.stops):
            raise ValueError(f"stops={self.stops} must be two chances from 0 to 1, a wrong expression's first")


def summed(text: str) -> str:
    """An expression with the running sum behind each number: `+ 7 7 - 4 3 - 2 1`."""
    words, total, made = text.split(), 0, list[str]()
    for sign, digit in zip(words[::2], words[1::2], strict=True):
        total += int(digit) if sign == "+" else -int(digit)
        made += [sign, digit, str(total)]
    return " ".join(made)


def expressions(digits: list[int], target: int) -> list[str]:
    """All right answers, in a fixed order."""
    found = {
        " ".join(f"{sign} {digit}" for sign, digit in zip(signs, order, strict=True))
        for order in permutations(digits)
        for signs in product("+-", repeat=len(digits))
    }
    return sorted(text for text in found if value(text) == target)


class Digits(Demonstration):
    """The comparison."""

    args: DigitsArguments

    def __init__(self, args: DigitsArguments) -> None:
        super().__init__(args)
        # Tags and an end token beside the trials and the answer; two sums in a critique, a label and an end token.
        self.answer_length = (3 * COUNT + 1) * args.trials + 2 + 2 * COUNT + 1 if args.reasoning else 2 * COUNT + 1
        self.critique_length = 6 * COUNT + 3 if args.reasoning and args.critic_reasoning else 2

    @cached_property
    def words(self) -> Any:
        """A token for each word, number and label."""
        known = ["<end>", "make", "of", "+", "-", ";", *REASONING_TAGS, *map(str, range(-LARGEST, LARGEST + 1)), *WORDS]
        made = word_tokenizer(known, pad="<end>", end="<end>")
        made.add_tokens([AddedToken(label) for label in LABELS])
        return made

    @cached_property
    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Puzzles, each with one of its right answers, drawn."""
        args, draws = self.args, random.Random(0)
        return {
            "train": [self.shown(row, draws) for row in puzzles(args.expert_answers, 0, held_out=False)],
            "test": [self.shown(row, draws) for row in puzzles(args.test_questions, args.test_seed, held_out=True)],
        }

    def shown(self, row: Mapping[str, Any], draws: random.Random) -> dict[str, Any]:
        """A puzzle as question and expert answer."""
        answer = draws.choice(expressions(row["digits"], row["target"]))
        return {"question": row["prompt"], "answer": answer, "digits": row["digits"], "target": row["target"]}

    def is_right(self, answer: str, row: Mapping[str, Any]) -> bool:
        """Whether an answer has exactly the digits and makes the target."""
        return sorted(answer.split()[1::2]) == sorted(map(str, row["digits"])) and value(answer) == row["target"]

    def start_rows(self, seed: int) -> list[dict[str, Any]]:
        """Answers of a careless one, and critiques of the expert's answers beside random expressions."""
        draws, rng = random.Random(seed), np.random.default_rng(seed)
        prompts, made = self.settings(seed, Path(self.args.output_dir)).prompts, list[dict[str, Any]]()
        for row in puzzles(self.args.start_examples, 2 + seed, held_out=False):
            tried = self.tried(row, draws)
            thought = f"{REASONING_TAGS[0]} {' ; '.join(map(summed, tried))} {REASONING_TAGS[1]} "
            chosen = (thought if self.args.reasoning else "") + tried[-1]
            made.append({"prompt": prompts.for_policy(row["prompt"]), "chosen": chosen})
        for place in range(self.args.start_examples):
            row = self.rows["train"][place % len(self.rows["train"])]
            made.append(self.critic_row(prompts, row, expression(row["digits"], draws), rng))
        return made

    def tried(self, row: Mapping[str, Any], draws: random.Random) -> list[str]:
        """Expressions of a puzzle's digits up to the one that is answered; without reasoning there is one alone."""
        made = [expression(row["digits"], draws)]
        while self.args.reasoning and len(made) < self.args.trials:
            if draws.random() < self.args.stops[value(made[-1]) == row["target"]]:
                break
            made.append(expression(row["digits"], draws))
        return made

    def critique(self, question: str, answers: tuple[str, str], label: str) -> str:
        """The sums of both answers, and the label."""
        if not (self.args.reasoning and self.args.critic_reasoning):
            return label
        if any(value(answer) is None for answer in answers):
            return label
        return f"{' ; '.join(map(summed, answers))} {label}"


if __name__ == "__main__":
    run_trial(Digits, DigitsArguments, __doc__ or "")
