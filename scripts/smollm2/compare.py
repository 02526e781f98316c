"""GRPO, PPO, DPO and VAPOR on SmolLM2-135M where expert answers are at hand: 4×4 Sudoku as a chat, at equal CPU time.

The start is the base after ten supervised steps on expert answers. From there each arm trains adapters for the same CPU
seconds: `grpo` and `ppo` on the share of the given digits that an answer keeps, plus that of the blanks it fills
rightly, plus 1 for the solved grid, `vapor` on the first two and on pairs of a sound and a faulty answer, `dpo` on
those pairs alone, `more` on more expert answers. Judged by the same rewards of one completion of each held-out puzzle,
sampled with the same random numbers and greedily; their solution grids do not occur in training.

The rate of every arm rises over a third of its budget and stays: four of GRPO's twelve steps, without which Adam's
first ones break the format.

    python -m scripts.smollm2.compare [--seeds 0 1 2 --cpu_seconds 240 --arms grpo ppo dpo vapor more]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from transformers import PreTrainedModel, Trainer, set_seed

from llm_rl import (
    DPOArguments,
    DPOTrainer,
    GRPOArguments,
    GRPOTrainer,
    PPOArguments,
    PPOTrainer,
    TransformersEngine,
    VAPORArguments,
    VAPORTrainer,
    add_lora,
    sample_and_score,
)
from scripts.smollm2.start import LORA, FromExperts, StartArguments
from sudoku_dllm.trials.trial import Judgement, run_trial, short_training
from sudoku_env import chat_rows
from sudoku_env.chat import RESPONSE_TAGS, ChatRow, cells_reward, exact_reward, givens_reward
from sudoku_env.puzzle_sets import draw_by_split

REWARDS = [givens_reward, cells_reward, exact_reward]
NAMES = ("reward", "givens", "cells", "exact")
"""Of a completion: the reward, given digits kept, blanks filled rightly, the grid solved."""
WAYS = ("sampled", "greedily")


@dataclass
class CompareArguments(StartArguments):
    """The puzzles, and what DPO and roll-outs need."""

    clues_low: int = field(default=13, metadata={"help": "Fewest clues of a puzzle."})
    clues_high: int = field(default=14, metadata={"help": "Most clues of a puzzle."})
    puzzle_seed: int = field(default=2026, metadata={"help": "Random seed of the puzzles, the same for all seeds."})
    train_rows: int = field(default=800, metadata={"help": "Puzzles for the start and all arms."})
    dpo_learning_rate: float = field(default=5e-5, metadata={"help": "Rate of DPO, whose pairs are half as many."})
    warmup_share: float = field(default=1 / 3, metadata={"help": "Share of the budget in which the rate rises."})
    max_completion_length: int = field(default=36, metadata={"help": "Longest completion in tokens."})
    output_dir: str = field(default="runs/smollm2", metadata={"help": "Run folder."})


class Chat(FromExperts):
    """The comparison."""

    ARMS: ClassVar[Mapping[str, str]] = {
        "ppo": "PPO",
        "grpo": "GRPO",
        "dpo": "DPO",
        "vapor": "VAPOR",
        "more": "more SFT",
    }
    FIGURES: ClassVar[Mapping[str, str]] = {
        "sampled/reward": "reward of 3, sampled",
        "greedily/exact": "solved, greedily",
        "greedily/reward": "reward of 3, greedily",
    }
    args: CompareArguments

    @cached_property
    def rows(self) -> dict[str, list[ChatRow]]:
        """Puzzles to train on, and held-out ones of other grids."""
        args = self.args
        sets = draw_by_split(
            4,
            (args.train_rows, 0, args.test_rows),
            clues=(args.clues_low, args.clues_high),
            rule="singles",
            exact=False,
            seed=args.puzzle_seed,
        )
        return {split: chat_rows(sets[split], args.puzzle_seed, form="response") for split in ("train", "test")}

    @property
    def expert_rows(self) -> list[ChatRow]:
        """See `FromExperts.expert_rows`."""
        return self.rows["train"]

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        args, policy, rows, words = self.args, add_lora(model, **LORA), self.rows["train"], self.words
        if arm == "more":
            return self.supervised(policy, seed, folder, args.control_learning_rate)
        if arm == "dpo":
            dpo = DPOArguments(**short_training(folder, args.completions // 2, seed, args.dpo_learning_rate))
            return DPOTrainer(policy, dpo, rows, words)

        # What samples.
        settings = short_training(folder, args.completions, seed, args.learning_rate)
        settings["max_completion_length"] = args.max_completion_length
        if arm == "ppo":
            ppo = PPOArguments(**settings, num_generations=1, num_ppo_epochs=1)
            return PPOTrainer(policy, REWARDS, ppo, rows, words)
        settings["num_generations"] = args.num_generations
        if arm == "grpo":
            return GRPOTrainer(policy, REWARDS, GRPOArguments(**settings, loss_type="dr_grpo"), rows, words)
        vapor = VAPORArguments(
            **settings,
            verifiable_term_split=[*RESPONSE_TAGS],
            ratio_base="old",
            ratio_level="token",
            clip_on="verifiable",
            advantage_scale="std",
            pref_loss_weight=0.05,
        )
        return VAPORTrainer(policy, REWARDS[:2], vapor, rows, words)

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """The rewards of a completion of each held-out puzzle, sampled and greedily."""
        figures, outcomes = dict[str, float](), dict[str, Any]()
        for way in WAYS:
            set_seed(seed)
            scored = sample_and_score(
                model,
                self.rows["test"],
                REWARDS,
                self.words,
                max_completion_length=self.args.max_completion_length,
                greedy=way == "greedily",
                engine=TransformersEngine(64),
            )
            rewards = np.array([sample.scores for sample in scored.samples])  # (N, 3)
            by_name = dict(zip(NAMES, [rewards.sum(1), *rewards.T], strict=True))
            figures |= {f"{way}/{name}": float(values.mean()) for name, values in by_name.items()}
            outcomes |= {f"{way}/{name}": by_name[name] for name in ("reward", "exact")}
        return figures, {"solved": outcomes["sampled/exact"], **outcomes}


if __name__ == "__main__":
    run_trial(Chat, CompareArguments, __doc__ or "")
