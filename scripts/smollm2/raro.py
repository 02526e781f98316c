"""RARO on SmolLM2-135M against more supervised training, at equal CPU time: word problems with expert answers.

The start is the base after 150 supervised steps on expert answers and on true critiques in the critic's format. From
there `raro` trains adapters and never sees whether an answer is right, and `more` goes on with the start's rows. Judged
by a verifier on held-out questions, whose arithmetic does not occur in training, and by the critic, in both orders of
the answers, all sampled with the same random numbers. Where the recipe departs from docs/raro.md, it is because little
of a step told anything otherwise (docs/log.md).

The rate of both arms rises over a sixth of the budget and stays, 4 of RARO's 24 steps.

    python -m scripts.smollm2.raro [--seeds 0 1 2 --cpu_seconds 2300]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from transformers import PreTrainedModel, Trainer

from llm_rl import RAROArguments, RAROTrainer, add_lora, start_rows
from scripts.shared.judging import judge
from scripts.shared.word_problems import QuestionRow, Sizes, result_reward, word_problem_sets
from scripts.smollm2.start import LORA, FromExperts, StartArguments
from sudoku_dllm.trials.trial import Judgement, run_trial, short_training

CRITIC_TEMPLATE = "{question}\nAnswer 1: {answer_1}\nAnswer 2: {answer_2}\nWhich answer did the expert write?"
"""A short one."""


@dataclass
class RaroTrialArguments(StartArguments):
    """The questions, and RARO's roll-outs."""

    question_seed: int = field(default=2026, metadata={"help": "Random seed of the questions, the same for all seeds."})
    train_rows: int = field(default=1600, metadata={"help": "Questions for the start and both arms."})
    steps: int = field(default=2, metadata={"help": "Steps of a question."})
    largest_number: int = field(default=12, metadata={"help": "The most to add or take away."})
    largest_count: int = field(default=60, metadata={"help": "The largest count."})
    sft_steps: int = field(default=150, metadata={"help": "Optimizer steps of the start."})
    sft_batch_size: int = field(default=16, metadata={"help": "Rows in a batch of the start and of the control."})
    cpu_seconds: float = field(default=2300.0, metadata={"help": "What each arm may spend, in CPU seconds."})
    warmup_share: float = field(default=1 / 6, metadata={"help": "Share of the budget in which the rate rises."})
    critic_pairs: int = field(default=12, metadata={"help": "Pairs that the critic trains on, half replayed."})
    critic_generations: int = field(default=8, metadata={"help": "The critic's completions of each pair."})
    temperature: float = field(default=1.5, metadata={"help": "At 1 the start's samples hardly differ."})
    max_completion_length: int = field(default=56, metadata={"help": "Longest answer in tokens."})
    max_critic_completion_length: int = field(default=40, metadata={"help": "Longest critique in tokens."})
    output_dir: str = field(default="runs/smollm2_raro", metadata={"help": "Run folder."})


class WordProblems(FromExperts):
    """The comparison."""

    ARMS: ClassVar[Mapping[str, str]] = {"raro": "RARO", "more": "more SFT"}
    FIGURES: ClassVar[Mapping[str, str]] = {
        "critic/accuracy": "critic accuracy",
        "policy/reward_mean": "policy reward",
        "critic/tie_rate": "tie rate",
    }
    args: RaroTrialArguments

    @cached_property
    def rows(self) -> dict[str, list[QuestionRow]]:
        """Questions to train on, and held-out ones."""
        args = self.args
        counts, sizes = (args.train_rows, 0, args.test_rows), Sizes(args.largest_number, args.largest_count)
        return word_problem_sets(counts, args.question_seed, (args.steps, args.steps), sizes)

    def settings(self, seed: int, folder: Path) -> RAROArguments:
        """What RARO trains and judges with."""
        args = self.args
        return RAROArguments(
            **short_training(folder, args.completions, seed, args.learning_rate),
            num_generations=args.num_generations,
            critic_pairs=args.critic_pairs,
            critic_generations=args.critic_generations,
            critic_equal_pairs=False,
            policy_judgements=2,
            temperature=args.temperature,
            max_completion_length=args.max_completion_length,
            max_critic_completion_length=args.max_critic_completion_length,
            lambda_pol=0.5,
            lambda_crit=0.5,
            unparsable_reward=0.0,
            overlength_reward=0.0,
            kl_weight=0.0,
            prompt_format="text",
            policy_system="",
            critic_system="",
            critic_template=CRITIC_TEMPLATE,
            per_device_eval_batch_size=64,
        )

    @cached_property
    def expert_rows(self) -> list[dict[str, Any]]:
        """Answers and critiques; see `FromExperts.expert_rows`."""
        settings = self.settings(0, Path(self.args.output_dir))
        tags = settings.reasoning_tags
        return start_rows(self.rows["train"], settings.prompts, tags, labels="true", tie_share=0.33, critiques=2)

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        policy = add_lora(model, **LORA)
        if arm == "more":
            return self.supervised(policy, seed, folder, self.args.control_learning_rate)
        return RAROTrainer(policy, self.settings(seed, folder), self.rows["train"], self.words)

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Which held-out questions are answered rightly, and `FIGURES`; NaN where no critique has a label."""
        settings = self.settings(seed, folder)
        return judge(model, settings, self.rows["test"], self.words, result_reward, self.FIGURES)


if __name__ == "__main__":
    run_trial(WordProblems, RaroTrialArguments, __doc__ or "")
