"""What a reward model is worth on signed digits, and when a policy fools it.

`make 1 of 4 7 2` is answered by `+ 7 - 4 - 2`. A small start knows the form and a little of the sums. For each seed a
classifier, which begins as the start's body, is taught on pairs of the start's own answers to a question, the right one
preferred (Bradley-Terry). Then arms train from the start for equal CPU time, those of GRPO for a quarter of it too: by
the true check, by the classifier, by the classifier with a divergence from the start (`--beta`), and, the control, SFT
on the best of `--num_generations` answers by the classifier. The classifier itself is spent in none of them.

    python -m scripts.raro.reward_model --seeds 0 1 2 3 4
"""

import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from transformers import LlamaForSequenceClassification, PreTrainedModel, Trainer

from llm_rl import GRPOArguments, GRPOTrainer, RewardModel, sample_and_score, supervised_trainer
from llm_rl.core._options import option
from llm_rl.core.preference import pairwise_loss
from llm_rl.training import RunArguments
from llm_rl.training.budget import Budget
from scripts.shared.signs import COUNT, LARGEST, expression, expressions, is_right, puzzles, uses
from scripts.shared.tiny_llama import LlamaTrial, word_tokenizer
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.rates import chosen_rates, rates_help
from sudoku_dllm.trials.trial import START, Judgement, TrialArguments, run_trial, short_training

LENGTH, SHORT, JUDGED = 2 * COUNT + 1, "_short", 8  # tokens of an answer with its end; answers to a held-out question
RATES = {"true": 3e-4, "model": 3e-4, "kl": 3e-4, "best": 3e-4}
"""Learning rates, chosen as docs/log.md tells."""
Pairs = list[tuple[str, str]]  # question with the preferred answer, and with the other one


@dataclass
class Arguments(TrialArguments):
    """The questions, the start, the classifier and the rates."""

    questions: int = option(1024, "Questions to train on.")
    test_questions: int = option(400, "Held-out questions.")
    test_seed: int = option(2, "Random seed of the held-out questions.")
    knows: float = option(0.5, "Share of right answers among those that the start learns.")
    hidden_size: int = option(64, "Width of the model.")
    num_hidden_layers: int = option(2, "Depth of the model.")
    start_steps: int = option(1000, "Supervised steps of the start.")
    start_examples: int = option(20000, "Answers that the start learns.")
    start_learning_rate: float = option(1e-3, "Rate of start and classifier; it falls to 0.")
    batch_size: int = option(64, "Answers in a batch of supervised training.")
    pair_steps: int = option(1000, "Steps of the classifier, of 32 pairs each.")
    rates: list[str] = option([], rates_help(RATES))
    completions: int = option(128, "Answers of a GRPO step.")
    num_generations: int = option(8, "Answers to one question.")
    beta: float = option(0.3, "Weight of the divergence from the start.")
    cpu_seconds: float = option(20.0, "What each arm may spend, in CPU seconds.")
    output_dir: str = option("runs/reward_model", "Run folder.")

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen_rates(RATES, self.rates)


def right(completions: Sequence[str], digits: Sequence[Any], target: Sequence[int], **columns: Any) -> list[float]:
    """1 for each right answer, else 0; a reward function."""
    return [float(is_right(*each)) for each in zip(completions, digits, target, strict=True)]


def given(completions: Sequence[str], digits: Sequence[Any], **columns: Any) -> list[float]:
    """1 for each answer that has the digits given, else 0; a reward function."""
    return [float(uses(*each)) for each in zip(completions, digits, strict=True)]


def teach(classifier: Any, pairs: Pairs, words: Any, *, steps: int, rate: float, seed: int) -> None:
    """Teach a classifier that the first of each pair is preferred, at a rate that falls to 0.

    Raises:
        ValueError: There are no pairs.
    """
    if not pairs:
        raise ValueError("pairs is empty: no question has right and wrong answers of the start; raise start_steps")
    draws, optimizer = random.Random(seed), torch.optim.AdamW(classifier.parameters(), lr=rate)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(steps):
        preferred, other = zip(*draws.choices(pairs, k=32), strict=True)
        texts = words([*preferred, *other], return_tensors="pt", padding=True, return_token_type_ids=False)
        scores = classifier(**texts).logits[:, 0]
        pairwise_loss(scores[:32] - scores[32:], beta=1.0).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        falling.step()


class Taught(LlamaTrial):
    """The comparison."""

    INNER, POSITIONS = 2, 32
    ARMS: ClassVar[dict[str, str]] = {
        "true_short": "GRPO, true check, a quarter",
        "true": "GRPO, true check",
        "model_short": "GRPO, classifier, a quarter",
        "model": "GRPO, classifier",
        "kl_short": "GRPO, classifier and divergence, a quarter",
        "kl": "GRPO, classifier and divergence",
        "best": "SFT on the best by the classifier",
    }
    CONTROL: ClassVar[str | None] = "best"
    FIGURES: ClassVar[dict[str, str]] = {
        "score": "classifier's mean score",
        "pairs": "own pairs that it orders rightly, %",
        "given": "answers of the digits given, %",
    }
    args: Arguments

    @cached_property
    def words(self) -> Any:
        """A token for each word and number."""
        known = ["<end>", "make", "of", "+", "-", *map(str, range(LARGEST + 1))]
        return word_tokenizer(known, pad="<end>", end="<end>")

    def rows(self, count: int, seed: int, held_out: bool) -> list[dict[str, Any]]:
        """Puzzles whose prompts end with a blank, so that an answer can stand behind them."""
        return [{**row, "prompt": row["prompt"] + " "} for row in puzzles(count, seed, held_out)]

    def start_rows(self, seed: int) -> list[dict[str, Any]]:
        """Answers, of which a share is right and the others are random."""
        draws, made = random.Random(seed), self.rows(self.args.start_examples, 2 + seed, held_out=False)
        for row in made:
            known = draws.random() < self.args.knows
            row["chosen"] = (
                draws.choice(expressions(row["digits"], row["target"])) if known else expression(row["digits"], draws)
            )
        return made

    def begin(self, job: Job, folder: Path) -> PreTrainedModel:
        """See `Trial.begin`; a start's classifier is taught and kept with it."""
        model: Any = super().begin(job, folder)
        if job.arm == START:
            config = deepcopy(model.config)
            config.num_labels = 1
            classifier = LlamaForSequenceClassification(config)
            classifier.model.load_state_dict(model.model.state_dict())
            pairs, args = self.pairs(self.sampled(model, right, JUDGED)), self.args
            teach(classifier, pairs, self.words, steps=args.pair_steps, rate=args.start_learning_rate, seed=job.seed)
            classifier.save_pretrained(folder / "classifier")
        return model

    def classifier(self, seed: int) -> RewardModel:
        """That of a seed's start, as a reward function."""
        folder = Job(START, seed).folder(Path(self.args.output_dir)) / "classifier"
        return RewardModel(folder, self.words, batch_size=512)

    def sampled(self, model: Any, rewards: Any, count: int, rows: Any = None) -> Any:
        """Answers to each question, by default those to train on, and their rewards."""
        rows = self.rows(self.args.questions, 0, held_out=False) if rows is None else rows
        return sample_and_score(model, rows, rewards, self.words, num_generations=count, max_completion_length=LENGTH)

    def pairs(self, found: Any, count: int = JUDGED) -> Pairs:
        """Right answers beside wrong ones to the same question, none twice."""
        texts = [sample.row["prompt"] + text for sample, text in zip(found.samples, found.completions, strict=True)]
        good, made = [sample.scores[0] == 1 for sample in found.samples], Pairs()
        for first in range(0, len(texts), count):
            here = range(first, first + count)
            sides = [[texts[each] for each in here if good[each] == side] for side in (True, False)]
            made += zip(*sides, strict=False)
        return made

    def stages(self, arm: str) -> list[tuple[str, Budget]]:
        """See `Trial.stages`; an arm with `SHORT` in its name may spend a quarter."""
        budget = self.args.budget
        return [(arm, Budget(budget.by, budget.amount / 4))] if arm.endswith(SHORT) else super().stages(arm)

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        args, kind, asked = self.args, arm.removesuffix(SHORT), self.rows(self.args.questions, 0, held_out=False)
        rate = chosen_rates(RATES, args.rates)[kind]
        if kind == "best":
            found = self.sampled(model, self.classifier(seed), args.num_generations)
            best = found.rewards.view(len(asked), -1).argmax(1).tolist()
            texts = [found.completions[place * args.num_generations + one] for place, one in enumerate(best)]
            shown = [{**row, "chosen": text} for row, text in zip(asked, texts, strict=True)]
            settings = RunArguments(**short_training(folder, args.batch_size, seed, rate))
            return supervised_trainer(model, settings, shown, self.words)
        grpo = GRPOArguments(
            **short_training(folder, args.completions, seed, rate),
            num_generations=args.num_generations,
            max_completion_length=LENGTH,
            loss_type="dr_grpo",
            kl_weight=args.beta if kind == "kl" else 0.0,
        )
        return GRPOTrainer(model, right if kind == "true" else self.classifier(seed), grpo, asked, self.words)

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """The share of right answers to each held-out question, and what the classifier makes of all of them."""
        test = self.rows(self.args.test_questions, self.args.test_seed, held_out=True)
        classifier = self.classifier(seed)
        torch.manual_seed(0)
        found = self.sampled(model, [right, given, classifier], JUDGED, test)
        solved, used, score = torch.tensor([sample.scores for sample in found.samples]).T
        pairs = self.pairs(found)
        first, other = (classifier([""] * len(pairs), side) for side in zip(*pairs, strict=True)) if pairs else ([], [])
        ordered = torch.tensor([100.0 * (one > two) for one, two in zip(first, other, strict=True)]).mean()
        figures = {"score": score.mean(), "pairs": ordered, "given": 100 * used.mean()}
        outcome = solved.view(len(test), JUDGED).mean(1).numpy()
        return {name: float(value) for name, value in figures.items()}, {"solved": outcome}


if __name__ == "__main__":
    run_trial(Taught, Arguments, __doc__ or "")
