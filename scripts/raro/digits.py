"""RARO on signed digits: three digits and a target; an expert shows one right expression, without reasoning.

`make 1 of 4 7 2` is answered by `+ 7 - 4 - 2`, in any order. The start knows the form of an answer and how to add, and
is careless: it writes down up to five random expressions with their running sums and answers with the last one, which
it takes too early, or passes by though it is right (`--stops`), so that a third of its answers is right. As critic it
has learned from the expert's answers beside random expressions: it adds both up and names the expert's. To answer well
is to try until a sum is the target, and to judge is to compare two sums with it; the expert shows neither. With
`--reasoning false` there is no word between question and answer or before a label, and the start heeds no target.

Judged are answers to held-out questions, by the verifier, which RARO never sees, and by the critic. The arms:

- `raro`, whose policy learns once its critic is right on `--critic_warmup` of the different answers;
- `more`, supervised training on the expert's answers, the control;
- `match`, GRPO whose reward is 1 for the expert's own words: the cheapest use of expert answers as a reward;
- `grpo`, GRPO with the true verifier, the ceiling;
- `frozen`, RARO whose critic never learns, and `critic`, whose policy never does.

    python -m scripts.raro.digits [--seeds 0 1 2 --expert_answers 256 --cpu_seconds 150]
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tokenizers import AddedToken
from transformers import LlamaForCausalLM, PreTrainedModel, PrinterCallback, Trainer

from llm_rl import GRPOArguments, GRPOTrainer, RAROArguments, RAROTrainer, supervised_trainer
from llm_rl.core._checks import check_count
from llm_rl.core._options import option
from llm_rl.raro import extract_answer
from llm_rl.raro.prompts import REASONING_TAGS
from llm_rl.raro.start import LABELS, TIE
from llm_rl.training import RunArguments
from scripts.shared.signs import COUNT, LARGEST, expression, expressions, is_right, puzzles, value
from scripts.shared.tiny_llama import taught_llama, word_tokenizer
from sudoku_dllm.trials.rates import chosen_rates, rates_help
from sudoku_dllm.trials.trial import Judgement, Trial, TrialArguments, run_trial, short_training

RATES = {"raro": 1e-4, "more": 1e-3, "match": 1e-4, "grpo": 1e-4, "frozen": 1e-4, "critic": 1e-4}
"""Learning rates, the better of those tried (docs/raro.md); RARO with a part frozen has RARO's."""


@dataclass
class DigitsArguments(TrialArguments):
    """The questions, the reasoning, the model, the start and the rates."""

    expert_answers: int = option(256, "Questions with an expert's answer, for all arms.")
    test_questions: int = option(400, "Held-out questions.")
    test_seed: int = option(1, "Random seed of the held-out questions.")
    reasoning: bool = option(True, "Policy and critic write down sums before they decide.")
    critic_reasoning: bool = option(True, "The critic does, where there is reasoning.")
    trials: int = option(5, "Expressions that the policy tries at most.")
    stops: list[float] = option(
        [0.15, 0.9], "Chance that the start answers with an expression, of a wrong one and of a right one."
    )
    hidden_size: int = option(96, "Width of the model.")
    num_hidden_layers: int = option(3, "Depth of the model.")
    start_steps: int = option(2000, "Supervised steps of the start.")
    start_examples: int = option(20000, "Answers, and as many critiques, of the start.")
    batch_size: int = option(32, "Rows in a batch of supervised training.")
    start_learning_rate: float = option(1e-3, "Rate of the start, which falls to 0.")
    rates: list[str] = option([], rates_help(RATES))
    completions: int = option(128, "The policy's completions of a step.")
    num_generations: int = option(8, "Those of one question, which are compared.")
    critic_warmup: float = option(0.7, "Accuracy on different answers from which on the policy learns as well.")
    output_dir: str = option("runs/raro_digits", "Run folder.")

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen_rates(RATES, self.rates)
        check_count("trials", self.trials)
        if len(self.stops) != 2 or not all(0 <= chance <= 1 for chance in self.stops):
            raise ValueError(f"stops={self.stops} must be two chances from 0 to 1, a wrong expression's first")


def summed(text: str) -> str:
    """An expression with the running sum behind each number: `+ 7 7 - 4 3 - 2 1`."""
    words, total, made = text.split(), 0, list[str]()
    for sign, digit in zip(words[::2], words[1::2], strict=True):
        total += int(digit) if sign == "+" else -int(digit)
        made += [sign, digit, str(total)]
    return " ".join(made)


class Digits(Trial):
    """The comparison."""

    ARMS: ClassVar[Mapping[str, str]] = {
        "raro": "RARO", "more": "SFT on the expert's answers", "match": "GRPO, the expert's words as reward",
        "grpo": "GRPO, true verifier", "frozen": "RARO, critic frozen", "critic": "RARO, policy frozen",
    }  # fmt: skip
    CHANGES: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "raro": {},
        "frozen": {"lambda_crit": 0.0, "critic_warmup": 0.0},
        "critic": {"lambda_pol": 0.0, "critic_warmup": 0.0},
    }
    CONTROL: ClassVar[str | None] = "more"
    FIGURES: ClassVar[Mapping[str, str]] = {
        "critic/accuracy_distinct": "critic accuracy, different answers",
        "policy/reward_mean": "policy reward",
        "critic/tie_rate": "tie rate",
    }
    args: DigitsArguments

    def __init__(self, args: DigitsArguments) -> None:
        super().__init__(args)
        # Tags and an end token beside the trials and the answer; two sums in a critique, a label and an end token.
        self.answer_length = (3 * COUNT + 1) * args.trials + 2 + 2 * COUNT + 1 if args.reasoning else 2 * COUNT + 1
        self.critique_length = 6 * COUNT + 3 if args.reasoning and args.critic_reasoning else 2

    @cached_property
    def words(self) -> Any:
        """A token for each word, number and label."""
        numbers = map(str, range(-LARGEST, LARGEST + 1))
        known = ["<end>", "make", "of", "+", "-", ";", *REASONING_TAGS, *numbers, "first", "second", "expert"]
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

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """A model from random weights that has learned from the start's rows."""
        args = self.args
        return taught_llama(
            self.start_rows(seed),
            self.words,
            seed,
            folder,
            batch_size=args.batch_size,
            learning_rate=args.start_learning_rate,
            steps=args.start_steps,
            hidden_size=args.hidden_size,
            intermediate_size=2 * args.hidden_size,
            num_hidden_layers=args.num_hidden_layers,
            max_position_embeddings=128,
        )

    def load(self, folder: Path) -> PreTrainedModel:
        """See `Trial.load`."""
        return LlamaForCausalLM.from_pretrained(folder)

    def tried(self, row: Mapping[str, Any], draws: random.Random) -> list[str]:
        """Expressions of a puzzle's digits up to the one that is answered; without reasoning there is one alone."""
        made = [expression(row["digits"], draws)]
        while self.args.reasoning and len(made) < self.args.trials:
            if draws.random() < self.args.stops[value(made[-1]) == row["target"]]:
                break
            made.append(expression(row["digits"], draws))
        return made

    def critique(self, answers: tuple[str, str], label: str) -> str:
        """The sums of both answers, and the label."""
        if not (self.args.reasoning and self.args.critic_reasoning):
            return label
        return f"{' ; '.join(map(summed, answers))} {label}"

    def settings(self, seed: int, folder: Path, rate: float = 0.0, **changes: float) -> RAROArguments:
        """What RARO trains and judges with."""
        args = self.args
        chosen: dict[str, Any] = {
            "prompt_format": "text", "policy_system": "", "critic_system": "", "policy_template": "{question}",
            "critic_template": "{question} first {answer_1} second {answer_2} expert",
            "num_generations": args.num_generations, "critic_generations": args.num_generations,
            "critic_equal_pairs": False, "lambda_pol": 0.5, "lambda_crit": 0.5, "critic_warmup": args.critic_warmup,
            "max_completion_length": self.answer_length, "max_critic_completion_length": self.critique_length,
            "unparsable_reward": 0.0, "overlength_reward": 0.0, "loss_type": "dr_grpo", "scale_rewards": "none",
            "kl_weight": 0.0, "per_device_eval_batch_size": 64,
        }  # fmt: skip
        return RAROArguments(**{**short_training(folder, args.completions, seed, rate), **chosen, **changes})

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        args, train, rate = self.args, self.rows["train"], chosen_rates(RATES, self.args.rates)[arm]
        if arm == "more":
            shown = [{"prompt": row["prompt"], "chosen": row["answer"]} for row in self.asked(train)]
            more = RunArguments(**short_training(folder, args.batch_size, seed, rate))
            return supervised_trainer(model, more, shown, self.words)
        if arm in ("grpo", "match"):
            grpo = GRPOArguments(
                **short_training(folder, args.completions, seed, rate),
                num_generations=args.num_generations,
                max_completion_length=self.answer_length,
                loss_type="dr_grpo",
                scale_rewards="none",
            )
            reward = self.right if arm == "grpo" else self.matches
            return GRPOTrainer(model, reward, grpo, self.asked(train), self.words)
        settings = self.settings(seed, folder, rate, **self.CHANGES[arm])
        return RAROTrainer(model, settings, train, self.words, verifiers=self.right)

    def asked(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Rows with the policy's prompts."""
        prompts = self.settings(0, Path(self.args.output_dir)).prompts
        return [{**row, "prompt": prompts.for_policy(row["question"])} for row in rows]

    def right(
        self, completions: Sequence[str], digits: Sequence[Sequence[int]], target: Sequence[int], **columns: Any
    ) -> list[float]:
        """1 for each completion whose answer has exactly the digits and makes the target, else 0; a reward function."""
        return [
            float(answer is not None and is_right(answer, each, sum_))
            for answer, each, sum_ in zip(map(extract_answer, completions), digits, target, strict=True)
        ]

    def matches(self, completions: Sequence[str], answer: Sequence[str], **columns: Any) -> list[float]:
        """1 for each completion with the expert's answer, word for word, else 0; a reward function."""
        return [float(extract_answer(text) == expert) for text, expert in zip(completions, answer, strict=True)]

    def critic_row(self, prompts: Any, row: Mapping[str, Any], other: str, rng: np.random.Generator) -> dict[str, Any]:
        """The critic's prompt about the expert's answer and another one, in an order drawn, and the right critique.

        Args:
            prompts: The prompts of both roles.
            row: The question and the expert's answer.
            other: The other answer.
            rng: Draws the order.
        """
        question, expert = row["question"], row["answer"]
        first = bool(rng.random() < 0.5)
        truth = TIE if other == expert else 1 - first
        shown = (expert, other) if first else (other, expert)
        critique = self.critique(shown, LABELS[truth])
        return {"prompt": prompts.for_critic(question, expert, other, first), "chosen": critique}

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Which held-out questions are answered rightly, and what the critic says, NaN where no critique counts."""
        right, test = list[float](), self.rows["test"]

        def noted(completions: Any, **columns: Any) -> Any:
            found = self.right(completions, **columns)
            right.extend(found)
            return found

        trainer = RAROTrainer(model, self.settings(seed, folder), test, self.words, verifiers=noted)
        trainer.remove_callback(PrinterCallback)
        found = trainer.evaluate(test)
        return {name: found.get(f"eval_{name}", nan) for name in self.FIGURES}, {"solved": np.array(right)}


if __name__ == "__main__":
    run_trial(Digits, DigitsArguments, __doc__ or "")
