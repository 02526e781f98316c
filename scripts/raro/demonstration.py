"""What RARO's demonstrations share: expert answers alone, a start, and arms of equal CPU time.

A Llama from scratch starts from what a task lets it know. From there each arm trains for the same CPU seconds:

- `raro`, whose policy learns once its critic is right on `--critic_warmup` of the different answers;
- `more`, supervised training on the expert's answers, the control;
- `match`, GRPO whose reward is 1 for the expert's own words: the cheapest use of expert answers as a reward;
- `grpo`, GRPO with the true verifier, the ceiling;
- `frozen`, RARO whose critic never learns, and `critic`, whose policy never does;
- `labels`, supervised critiques of its own answers with the right labels: how well a critic can do here at all.

Others, by `--arms`, change one thing of RARO (`Demonstration.CHANGES`). Judged are answers to held-out questions, by
the verifier, which RARO never sees, and by the critic.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from transformers import LlamaForCausalLM, PreTrainedModel, Trainer, set_seed

from llm_rl import (
    GRPOArguments,
    GRPOTrainer,
    MetricsWriter,
    RAROArguments,
    RAROTrainer,
    sample_and_score,
    supervised_trainer,
)
from llm_rl.raro import extract_answer
from llm_rl.raro.start import LABELS, TIE
from llm_rl.training import RunArguments, read_json_lines
from scripts.shared.judging import judge
from scripts.shared.tiny_llama import taught_llama
from sudoku_dllm.trials.rates import chosen_rates, rates_help
from sudoku_dllm.trials.trial import Judgement, Trial, TrialArguments, short_training

RATES = {"raro": 1e-4, "more": 1e-3, "match": 1e-4, "grpo": 1e-4, "labels": 1e-3}
"""Learning rates, the better of those tried (docs/raro_digits.md); what changes one thing of RARO has RARO's."""
LOG = "log.jsonl"
MAIN_ARMS = ("raro", "more", "match", "grpo", "frozen", "critic")
CURVES = {
    "critic/accuracy_distinct": "critic accuracy, different answers",
    "policy/reward_mean": "policy reward",
    "critic/tie_rate": "tie rate",
    "verified/right": "right, training questions",
}
"""What a result keeps of RARO's log."""
WORDS = ("first", "second", "expert")
"""Words of the critic's prompt, which every task's tokenizer has."""


@dataclass
class DemonstrationArguments(TrialArguments):
    """The questions, the model, the start and the rates."""

    arms: list[str] | None = field(default_factory=lambda: list(MAIN_ARMS), metadata={"help": "Trainings to compare."})
    expert_answers: int = field(default=256, metadata={"help": "Questions with an expert's answer, for all arms."})
    test_questions: int = field(default=400, metadata={"help": "Held-out questions."})
    test_seed: int = field(default=1, metadata={"help": "Random seed of the held-out questions."})
    hidden_size: int = field(default=96, metadata={"help": "Width of the model."})
    num_hidden_layers: int = field(default=3, metadata={"help": "Depth of the model."})
    start_steps: int = field(default=600, metadata={"help": "Supervised steps of the start."})
    batch_size: int = field(default=64, metadata={"help": "Rows in a batch of supervised training."})
    start_learning_rate: float = field(default=1e-3, metadata={"help": "Rate of the start, which falls to 0."})
    rates: list[str] = field(default_factory=list, metadata=rates_help(RATES))
    completions: int = field(default=128, metadata={"help": "The policy's completions of a step."})
    num_generations: int = field(default=8, metadata={"help": "Those of one question, which are compared."})
    critic_warmup: float = field(
        default=0.7, metadata={"help": "Accuracy on different answers from which on the policy learns as well."}
    )
    output_dir: str = field(default="runs/raro_demonstration", metadata={"help": "Run folder."})

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen_rates(RATES, self.rates)

    def rate_of(self, arm: str) -> float:
        """The rate of an arm."""
        rates = chosen_rates(RATES, self.rates)
        return rates.get(arm, rates["raro"])


class Demonstration(Trial):
    """A task with a verifier, which RARO never sees, and an expert's answers.

    Attributes:
        CHANGES: What arms of RARO change of it.
    """

    CHANGES: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "raro": {},
        "frozen": {"lambda_crit": 0.0, "critic_warmup": 0.0},
        "critic": {"lambda_pol": 0.0, "critic_warmup": 0.0},
        "source_lambda": {"lambda_pol": RAROArguments.lambda_pol, "lambda_crit": RAROArguments.lambda_crit},
        "no_warmup": {"critic_warmup": 0.0},
        "no_replay": {"replay_capacity": 1},
        "no_ties": {"tau_pol": 0.0, "tau_crit": 0.0},
        "ties_at_half": {"tau_pol": 0.5, "tau_crit": 0.5},
        "both_orders": {"judge_both_orders": True},
        "equal_pairs": {"critic_equal_pairs": True},
        "mixed": {"critic_batch": "mixed", "critic_equal_pairs": True},
    }
    ARMS: ClassVar[Mapping[str, str]] = {
        "raro": "RARO",
        "more": "SFT on the expert's answers",
        "match": "GRPO, the expert's words as reward",
        "grpo": "GRPO, true verifier",
        "frozen": "RARO, critic frozen",
        "critic": "RARO, policy frozen",
        "labels": "true labels of its own answers",
        "source_lambda": "RARO, λ 1/9 and 8/9",
        "no_warmup": "RARO, no warm-up",
        "no_replay": "RARO, no replay",
        "no_ties": "RARO, no ties",
        "ties_at_half": "RARO, τ 0.5 and 0.5",
        "both_orders": "RARO, both orders judged",
        "equal_pairs": "RARO, equal pairs as well",
        "mixed": "RARO, mixed batches",
    }
    CONTROL: ClassVar[str | None] = "more"
    FIGURES: ClassVar[Mapping[str, str]] = {
        "critic/accuracy_distinct": "critic accuracy, different answers",
        "policy/reward_mean": "policy reward",
        "critic/tie_rate": "tie rate",
    }
    KEEPS_MODELS: ClassVar[bool] = True  # for `scripts.raro.answers`
    answer_length: int
    critique_length: int = 2
    args: DemonstrationArguments

    # What a task says

    @property
    @abstractmethod
    def words(self) -> Any:
        """A tokenizer with a token for each word and label."""

    @property
    @abstractmethod
    def rows(self) -> Mapping[str, list[dict[str, Any]]]:
        """Questions with an expert's answer, "train", and held-out ones, "test"."""

    @abstractmethod
    def start_rows(self, seed: int) -> list[dict[str, Any]]:
        """What the start learns."""

    @abstractmethod
    def is_right(self, answer: str, row: Mapping[str, Any]) -> bool:
        """The verifier's word on an answer."""

    def critique(self, question: str, answers: tuple[str, str], label: str) -> str:
        """What a critic is to write of two answers to end with a label."""
        return label

    # The trainings

    def settings(self, seed: int, folder: Path, rate: float = 0.0, **changes: Any) -> RAROArguments:
        """What RARO trains and judges with."""
        args = self.args
        chosen: dict[str, Any] = {
            "prompt_format": "text",
            "policy_system": "",
            "critic_system": "",
            "policy_template": "{question}",
            "critic_template": "{question} first {answer_1} second {answer_2} expert",
            "num_generations": args.num_generations,
            "critic_generations": args.num_generations,
            "critic_equal_pairs": False,
            "lambda_pol": 0.5,
            "lambda_crit": 0.5,
            "critic_warmup": args.critic_warmup,
            "max_completion_length": self.answer_length,
            "max_critic_completion_length": self.critique_length,
            "unparsable_reward": 0.0,
            "overlength_reward": 0.0,
            "loss_type": "dr_grpo",
            "scale_rewards": "none",
            "kl_weight": 0.0,
            "per_device_eval_batch_size": 64,
        }
        return RAROArguments(**{**short_training(folder, args.completions, seed, rate), **chosen, **changes})

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """A model that has learned from the start's rows."""
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

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        args, rate = self.args, self.args.rate_of(arm)
        if arm in ("more", "labels"):
            rows = self.answer_rows() if arm == "more" else self.labeled(model, seed, folder)
            return supervised_trainer(
                model, RunArguments(**short_training(folder, args.batch_size, seed, rate)), rows, self.words
            )
        log = MetricsWriter(folder / LOG)
        if arm in ("grpo", "match"):
            grpo = GRPOArguments(
                **short_training(folder, args.completions, seed, rate),
                num_generations=args.num_generations,
                max_completion_length=self.answer_length,
                loss_type="dr_grpo",
                scale_rewards="none",
            )
            reward = self.right if arm == "grpo" else self.matches
            return GRPOTrainer(model, reward, grpo, self.asked(self.rows["train"]), self.words, callbacks=[log])
        settings = self.settings(seed, folder, rate, **self.CHANGES[arm])
        return RAROTrainer(model, settings, self.rows["train"], self.words, verifiers=self.right, callbacks=[log])

    def asked(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Rows with the policy's prompts."""
        prompts = self.settings(0, Path(self.args.output_dir)).prompts
        return [{**row, "prompt": prompts.for_policy(row["question"])} for row in rows]

    def answer_rows(self) -> list[dict[str, Any]]:
        """The policy's prompts, and the expert's answers to be written."""
        return [{"prompt": row["prompt"], "chosen": row["answer"]} for row in self.asked(self.rows["train"])]

    def right(self, completions: Sequence[str], **columns: Any) -> list[float]:
        """1 for each completion with a right answer, else 0; a reward function."""
        answers = map(extract_answer, completions)
        of_rows = {name: values for name, values in columns.items() if isinstance(values, list)}
        rows = [{name: values[place] for name, values in of_rows.items()} for place in range(len(completions))]
        return [
            float(answer is not None and self.is_right(answer, row)) for answer, row in zip(answers, rows, strict=True)
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
        critique = self.critique(question, shown, LABELS[truth])
        return {"prompt": prompts.for_critic(question, expert, other, first), "chosen": critique}

    def labeled(self, model: PreTrainedModel, seed: int, folder: Path) -> list[dict[str, Any]]:
        """The critic's prompts about the model's own answers beside the expert's, with the right labels."""
        set_seed(seed)
        prompts, rng = self.settings(seed, folder).prompts, np.random.default_rng(seed)
        scored = sample_and_score(
            model,
            self.asked(self.rows["train"]),
            self.right,
            self.words,
            num_generations=self.args.num_generations,
            max_completion_length=self.answer_length,
        )
        made = []
        for sample in scored.samples:
            answer = extract_answer(self.words.decode(sample.completion_ids, skip_special_tokens=True))
            if answer is not None and answer != sample.row["answer"]:
                made.append(self.critic_row(prompts, sample.row, answer, rng))
        return made

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Which held-out questions are answered rightly, and what the critic says, NaN where no critique counts.

        The result keeps the curves of the training, where there was one of RARO.
        """
        settings, test = self.settings(seed, folder), self.rows["test"]
        figures, outcomes = judge(model, settings, test, self.words, self.right, self.FIGURES)
        return {**figures, "curve": curve(folder / LOG)}, outcomes


def curve(log: Path) -> list[dict[str, float]]:
    """What a result keeps of a log: the steps of RARO's lines, and `CURVES`; nothing where there is no log."""
    lines = read_json_lines(log).to_dict("records") if log.is_file() else []
    return [
        {name: line[name] for name in ("step", *CURVES) if line.get(name) is not None and isfinite(line[name])}
        for line in lines
        if "critic/reward_mean" in line
    ]
