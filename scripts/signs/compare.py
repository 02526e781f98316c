"""PPO, GRPO, DPO and VAPOR at equal CPU time where only a verifier says what is right (`scripts.shared.signs`).

A Llama from scratch, by default of a million parameters, learns to write expressions that are right by chance alone.
From there each arm trains for the same CPU seconds: `grpo` and `ppo` on the verifier, `dpo` on pairs of a right and a
wrong completion that the start was sampled for, `vapor` on both, `more` on more of what the start learned from;
`placebo` is `grpo` with each puzzle's verdicts dealt anew among its completions. The time that making pairs takes is
the arm's own. Judged by the share of completions that solve held-out puzzles, sampled with the same random numbers.
`scripts.signs.report` adds to the table what could be solved without reading a puzzle, and draws the picture.

    python -m scripts.signs.compare [--seeds 0 1 2 --cpu_seconds 240 --arms ppo grpo dpo vapor more]
"""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from transformers import LlamaForCausalLM, PreTrainedModel, Trainer, set_seed

from llm_rl import (
    DPOArguments,
    DPOTrainer,
    GRPOArguments,
    GRPOTrainer,
    PPOArguments,
    PPOTrainer,
    VAPORArguments,
    VAPORTrainer,
    sample_and_score,
    supervised_trainer,
)
from llm_rl.training import RunArguments
from scripts.shared.signs import ANSWER_TOKENS, TAGS, dealt_anew, puzzles, solved, start_rows, tokenizer
from scripts.shared.tiny_llama import taught_llama
from scripts.signs.report import CONTROL, TITLES
from sudoku_dllm.trials.rates import chosen_rates, rates_help
from sudoku_dllm.trials.trial import Judgement, Trial, TrialArguments, run_trial, short_training

RATES = {"ppo": 3e-4, "grpo": 3e-4, "dpo": 1e-5, "vapor": 1e-4, "more": 1e-3, "placebo": 3e-4}
"""Learning rates, the best of those tried with seed 0 on other held-out puzzles (docs/log.md)."""


@dataclass
class CompareArguments(TrialArguments):
    """The model, the start, the puzzles and the rates."""

    start_steps: int = field(default=600, metadata={"help": "Supervised steps of the start."})
    start_batch_size: int = field(default=64, metadata={"help": "Expressions in a batch of the start."})
    start_learning_rate: float = field(default=1e-3, metadata={"help": "Rate of the start, which falls to 0."})
    hidden_size: int = field(default=160, metadata={"help": "Width of the model."})
    num_hidden_layers: int = field(default=4, metadata={"help": "Depth of the model."})
    rates: list[str] = field(default_factory=list, metadata=rates_help(RATES))
    completions: int = field(default=128, metadata={"help": "Completions of a step; pairs are half as many."})
    num_generations: int = field(default=8, metadata={"help": "Completions of a prompt, where they are compared."})
    train_puzzles: int = field(default=4000, metadata={"help": "Puzzles to train on."})
    test_puzzles: int = field(default=500, metadata={"help": "Held-out puzzles."})
    test_seed: int = field(default=1, metadata={"help": "Random seed of the held-out puzzles; rates were chosen on 2."})
    test_generations: int = field(default=8, metadata={"help": "Completions of each held-out puzzle."})
    output_dir: str = field(default="runs/signs", metadata={"help": "Run folder."})

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen_rates(RATES, self.rates)

    @property
    def rate_of(self) -> dict[str, float]:
        """The rate of each arm."""
        return chosen_rates(RATES, self.rates)


class Signs(Trial):
    """The comparison."""

    ARMS = TITLES
    CONTROL = CONTROL
    args: CompareArguments

    @cached_property
    def train(self) -> list[dict[str, Any]]:
        """Puzzles to train on."""
        return puzzles(self.args.train_puzzles, 0, held_out=False)

    @cached_property
    def words(self) -> Any:
        """The tokenizer."""
        return tokenizer()

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """A model that writes expressions of the digits, whatever the target."""
        args = self.args
        return taught_llama(
            start_rows(self.train, seed),
            self.words,
            seed,
            folder,
            batch_size=args.start_batch_size,
            learning_rate=args.start_learning_rate,
            steps=args.start_steps,
            hidden_size=args.hidden_size,
            intermediate_size=2 * args.hidden_size,
            num_hidden_layers=args.num_hidden_layers,
            max_position_embeddings=64,
        )

    def load(self, folder: Path) -> PreTrainedModel:
        """See `Trial.load`."""
        return LlamaForCausalLM.from_pretrained(folder)

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        args, words, train = self.args, self.words, self.train

        def common(batch_size: int) -> dict[str, Any]:
            return short_training(folder, batch_size, seed, args.rate_of[arm])

        sampling = {**common(args.completions), "max_completion_length": ANSWER_TOKENS}
        in_groups = {**sampling, "num_generations": args.num_generations}
        if arm == "ppo":
            ppo = PPOArguments(**sampling, num_ppo_epochs=2, vf_coef=0.5, cliprange_value=None)
            return PPOTrainer(model, solved, ppo, train, words)
        if arm in ("grpo", "placebo"):
            reward = solved if arm == "grpo" else dealt_anew(random.Random(seed))
            return GRPOTrainer(model, reward, GRPOArguments(**in_groups, loss_type="dr_grpo"), train, words)
        if arm == "more":
            more = RunArguments(**common(args.start_batch_size))
            return supervised_trainer(model, more, start_rows(train, seed + 1), words)
        pairs = self.pairs(model, seed)
        if arm == "dpo":
            return DPOTrainer(model, DPOArguments(**common(min(args.completions // 2, len(pairs)))), pairs, words)
        vapor = VAPORArguments(
            **in_groups,
            verifiable_term_split=TAGS,
            preference_term_split=TAGS,
            ratio_base="old",
            ratio_level="token",
            clip_on="verifiable",
            advantage_scale="std",
            pref_loss_weight=0.05,
        )
        return VAPORTrainer(model, solved, vapor, pairs, words)

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """The share of each held-out puzzle's completions that solve it."""
        count = self.args.test_generations
        test = puzzles(self.args.test_puzzles, self.args.test_seed, held_out=True)
        scores = np.array([score for _, each in self.sampled(model, test, seed, count) for score in each])
        return {}, {"solved": scores.reshape(-1, count).mean(1)}

    def sampled(
        self, model: Any, rows: list[dict[str, Any]], seed: int, count: int
    ) -> Iterator[tuple[Any, list[float]]]:
        """So many completions of each row and whether they are right, `completions` at a time."""
        set_seed(seed)
        size = max(1, self.args.completions // count)
        for start in range(0, len(rows), size):
            found = sample_and_score(
                model, rows[start : start + size], solved, self.words, num_generations=count,
                max_completion_length=ANSWER_TOKENS,
            )  # fmt: skip
            yield found.samples, found.rewards.tolist()

    def pairs(self, model: Any, seed: int) -> list[dict[str, Any]]:
        """A right and a wrong completion of puzzles for which the model wrote both; a third of the budget at most.

        Raises:
            ValueError: It wrote none.
        """
        found: list[dict[str, Any]] = []
        began, count = time.process_time(), self.args.num_generations
        for samples, scores in self.sampled(model, self.train, seed, count):
            for first in range(0, len(samples), count):
                group = range(first, min(first + count, len(samples)))
                right, wrong = ([i for i in group if scores[i] == score] for score in (1.0, 0.0))
                if right and wrong:
                    texts = [
                        self.words.decode(samples[i].completion_ids, skip_special_tokens=True)
                        for i in (right[0], wrong[0])
                    ]
                    found.append({**samples[first].row, "chosen": texts[0], "rejected": texts[1]})
            if time.process_time() - began > self.args.cpu_seconds / 3:
                break
        if not found:
            raise ValueError("the start writes no right completion, so that there are no pairs; raise --start_steps")
        return found


if __name__ == "__main__":
    run_trial(Signs, CompareArguments, __doc__ or "")
