"""RARO where checking is easier than solving: 4×4 grids of few clues, of which an expert shows one completion each.

Many grids complete such a board, and the expert's is one of them at random; to see that another one is wrong takes a
look for two equal digits. A Llama from scratch starts from the expert's answers and, as critic, from pairs made of them
(`llm_rl.raro.start_rows`). From there each arm trains for the same CPU seconds: `raro`, once its critic is right on
`--critic_warmup` of the different answers it sees; `frozen`, whose critic learns no more; `critic`, whose policy does
not; `grpo` with the true verifier, the ceiling; `more` on more of the start's rows; and `labels` on true labels of its
own answers, which tells how well a critic can do here at all. Judged are completions of held-out boards, by the rules,
which RARO never sees, and by the critic.

    python -m scripts.raro.grids [--seeds 0 1 2 --expert_answers 256 --cpu_seconds 240]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tokenizers import AddedToken
from transformers import (
    LlamaForCausalLM,
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    set_seed,
)

from llm_rl import (
    GRPOArguments,
    GRPOTrainer,
    RAROArguments,
    RAROTrainer,
    sample_and_score,
    start_rows,
    supervised_trainer,
)
from llm_rl.raro.start import LABELS
from llm_rl.training import RunArguments
from scripts.raro.judging import judge
from scripts.taught_llama import taught_llama
from scripts.tiny_llama import word_tokenizer
from sudoku_dllm.trials.trial import Judgement, Trial, TrialArguments, run_trial, short_training
from sudoku_env import completable, generate

SIZE, BLANK = 4, "_"
TEMPLATES: dict[str, Any] = {"prompt_format": "text", "policy_system": "", "critic_system": ""}
CRITIC_TEMPLATE = "{question} first {answer_1} second {answer_2} expert"


@dataclass
class GridsArguments(TrialArguments):
    """The boards, the model, the start and the rates."""

    expert_answers: int = field(default=1024, metadata={"help": "Boards with an expert's answer, for all arms."})
    clues: list[int] = field(default_factory=lambda: [1, 5], metadata={"help": "Fewest and most clues of a board."})
    test_boards: int = field(default=400, metadata={"help": "Held-out boards."})
    hidden_size: int = field(default=128, metadata={"help": "Width of the model."})
    num_hidden_layers: int = field(default=4, metadata={"help": "Depth of the model."})
    start_steps: int = field(default=400, metadata={"help": "Supervised steps of the start."})
    batch_size: int = field(default=64, metadata={"help": "Rows in a batch of supervised training."})
    start_learning_rate: float = field(default=1e-3, metadata={"help": "Rate of the start, which falls to 0."})
    learning_rate: float = field(default=3e-4, metadata={"help": "Rate of what samples."})
    control_learning_rate: float = field(default=1e-3, metadata={"help": "Rate of supervised arms."})
    completions: int = field(default=128, metadata={"help": "The policy's completions of a step."})
    num_generations: int = field(default=8, metadata={"help": "Those of one board, which are compared."})
    critic_warmup: float = field(
        default=0.7, metadata={"help": "Accuracy on different answers from which on the policy learns as well."}
    )
    output_dir: str = field(default="runs/raro_grids", metadata={"help": "Run folder."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.clues) != 2 or not 0 <= self.clues[0] <= self.clues[1] < SIZE**2:
            raise ValueError(f"clues={self.clues} must be two numbers from 0 to {SIZE**2 - 1}, the fewest first")
        if not 0 <= self.critic_warmup < 1:
            raise ValueError(f"critic_warmup={self.critic_warmup} must be a share; 0 is no warm-up")


def rows_of(boards: Any, solutions: Any) -> list[dict[str, Any]]:
    """Boards as questions, and their grids as answers: a word for each cell."""
    return [
        {
            "question": " ".join(str(digit) if digit else BLANK for digit in board.tolist()),
            "answer": " ".join(map(str, grid.tolist())),
        }
        for board, grid in zip(boards, solutions, strict=True)
    ]


def is_right(completion: str, question: str) -> bool:
    """Whether a completion is a grid by the rules that keeps the clues of a board."""
    words, clues = completion.split(), question.split()
    if len(words) != SIZE**2 or any(word not in set("1234") for word in words):
        return False
    kept = all(clue in (BLANK, word) for clue, word in zip(clues, words, strict=True))
    return kept and bool(completable(np.array([words], dtype=np.uint8))[0])


def right(completions: Sequence[str], question: Sequence[str], **columns: Any) -> list[float]:
    """1 for each completion that is right (`is_right`), else 0; a reward function."""
    return [float(is_right(*both)) for both in zip(completions, question, strict=True)]


class WarmUp(TrainerCallback):
    """Lets the critic alone learn until it is right often enough.

    Args:
        trainer: The trainer.
        accuracy: The share of different answers, over the steps of a log line, from which on the policy learns as well.
    """

    def __init__(self, trainer: RAROTrainer, accuracy: float) -> None:
        self.args, self.accuracy, self.weight = trainer.args, accuracy, trainer.args.lambda_pol
        if accuracy > 0:
            trainer.args.lambda_pol = 0.0

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Look at the accuracy."""
        if (logs or {}).get("critic/accuracy_distinct", nan) >= self.accuracy:
            self.args.lambda_pol = self.weight


class Grids(Trial):
    """The comparison."""

    ARMS: ClassVar[Mapping[str, str]] = {
        "raro": "RARO",
        "frozen": "RARO, critic frozen",
        "critic": "RARO, policy frozen",
        "grpo": "GRPO with the true verifier",
        "more": "more SFT",
        "labels": "true labels of its own answers",
    }
    CONTROL = "more"
    FIGURES: ClassVar[Mapping[str, str]] = {
        "critic/accuracy_distinct": "critic accuracy, different answers",
        "policy/reward_mean": "policy reward",
        "critic/tie_rate": "tie rate",
    }
    args: GridsArguments

    @cached_property
    def words(self) -> Any:
        """A token for each word and label."""
        made = word_tokenizer(["<end>", *"1234", BLANK, "first", "second", "expert"], pad="<end>", end="<end>")
        made.add_tokens([AddedToken(label) for label in LABELS])
        return made

    @cached_property
    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Boards with an expert's answer, and held-out ones."""
        args, low_high = self.args, (self.args.clues[0], self.args.clues[1])
        test = generate(args.test_boards, size=SIZE, clues=low_high, answers="any", seed=1)
        held_out = {board.tobytes() for board in test.boards}
        drawn = generate(2 * args.expert_answers + 100, size=SIZE, clues=low_high, answers="any", seed=0)
        kept = [place for place, board in enumerate(drawn.boards) if board.tobytes() not in held_out]
        kept = kept[: args.expert_answers]
        return {
            "train": rows_of(drawn.boards[kept], drawn.solutions[kept]),
            "test": rows_of(test.boards, test.solutions),
        }

    def settings(self, seed: int, folder: Path, **weights: Any) -> RAROArguments:
        """What RARO trains and judges with."""
        args = self.args
        return RAROArguments(
            **short_training(folder, args.completions, seed, args.learning_rate),
            **TEMPLATES,
            **weights,
            policy_template="{question}",
            critic_template=CRITIC_TEMPLATE,
            num_generations=args.num_generations,
            critic_generations=args.num_generations,
            critic_equal_pairs=False,
            max_completion_length=SIZE**2 + 1,
            max_critic_completion_length=2,
            unparsable_reward=0.0,
            overlength_reward=0.0,
            loss_type="dr_grpo",
            kl_weight=0.0,
            per_device_eval_batch_size=64,
        )

    def expert_rows(self, seed: int) -> list[dict[str, Any]]:
        """The expert's answers, and pairs of them with answers of which some cells are another's."""
        settings = self.settings(seed, Path(self.args.output_dir))
        return start_rows(
            self.rows["train"], settings.prompts, labels="true", critiques=2, foreign=(0.1, 0.6), seed=seed
        )

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """A model that has learned from the expert's answers for some steps."""
        args = self.args
        return taught_llama(
            self.expert_rows(seed),
            self.words,
            seed,
            folder,
            batch_size=args.batch_size,
            learning_rate=args.start_learning_rate,
            steps=args.start_steps,
            hidden_size=args.hidden_size,
            intermediate_size=4 * args.hidden_size,
            num_hidden_layers=args.num_hidden_layers,
            max_position_embeddings=64,
        )

    def load(self, folder: Path) -> PreTrainedModel:
        """See `Trial.load`."""
        return LlamaForCausalLM.from_pretrained(folder)

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        args, train = self.args, self.rows["train"]
        if arm in ("more", "labels"):
            rows = self.expert_rows(seed + 1) if arm == "more" else self.labeled(model, seed, folder)
            settings = RunArguments(**short_training(folder, args.batch_size, seed, args.control_learning_rate))
            return supervised_trainer(model, settings, rows, self.words)
        if arm == "grpo":
            grpo = GRPOArguments(
                **short_training(folder, args.completions, seed, args.learning_rate),
                num_generations=args.num_generations,
                max_completion_length=SIZE**2 + 1,
                loss_type="dr_grpo",
            )
            return GRPOTrainer(model, right, grpo, self.asked(train), self.words)
        weights = {"frozen": {"lambda_crit": 0.0}, "critic": {"lambda_pol": 0.0}}.get(arm, {})
        trainer = RAROTrainer(model, self.settings(seed, folder, **weights), train, self.words, verifiers=right)
        if arm == "raro":
            trainer.add_callback(WarmUp(trainer, args.critic_warmup))
        return trainer

    def asked(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Rows with the policy's prompts."""
        return [{**row, "prompt": row["question"]} for row in rows]

    def labeled(self, model: PreTrainedModel, seed: int, folder: Path) -> list[dict[str, Any]]:
        """The critic's prompts about the model's own answers beside the expert's, with the right labels."""
        set_seed(seed)
        settings = self.settings(seed, folder)
        scored = sample_and_score(
            model,
            self.asked(self.rows["train"]),
            right,
            self.words,
            num_generations=self.args.num_generations,
            max_completion_length=SIZE**2 + 1,
        )
        made, rng = [], np.random.default_rng(seed)
        for sample in scored.samples:
            answer = self.words.decode(sample.completion_ids, skip_special_tokens=True)
            question, expert = sample.row["question"], sample.row["answer"]
            if answer != expert:
                first = bool(rng.random() < 0.5)
                asked = settings.prompts.for_critic(question, expert, answer, first)
                made.append({"prompt": asked, "chosen": LABELS[0 if first else 1]})
        return made

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Which held-out boards are completed by the rules, and what the critic says; NaN where no critique counts."""
        return judge(model, self.settings(seed, folder), self.rows["test"], self.words, right, self.FIGURES)


if __name__ == "__main__":
    run_trial(Grids, GridsArguments, __doc__ or "")
