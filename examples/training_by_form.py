"""Training by the form alone: a small model that has seen records of a JSON schema, and a check of what can be one.

A record is written in characters, a few of which are given; any record that has them is right. From one start for each
seed, taught random records, four trainings of equal CPU time; the check is `dllm_rl.Pattern`, in two of them the only
word on what is right. Held-out problems are decoded without it at 1, 2, 4 and 8 characters a pass, and under it:

    python examples/training_by_form.py --seeds 0 1 2 3 4 --output_dir runs/form
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Trainer

from dllm_rl import (
    Decoding,
    LladaConfig,
    LladaForMaskedLM,
    Pattern,
    SftArguments,
    SftDataset,
    SftTrainer,
    TextBatch,
    UnmaskArguments,
    UnmaskTrainer,
    decode,
)
from llm_rl.training.budget import Budget
from sudoku_dllm.trials.rates import chosen_rates, rates_help
from sudoku_dllm.trials.training import train_job
from sudoku_dllm.trials.trial import Judgement, Trial, TrialArguments, run_trial, short_training

LETTERS, LENGTH, MASK = "aegmnst", 52, 0
NAMES = ["<mask>", *LETTERS, *'0123456789{}[]":, -', "<eos>", "<pad>"]
TEXT = {"type": "string", "minLength": 1, "maxLength": 3}
FIELDS = {
    "name": TEXT,
    "age": {"type": "integer"},
    "tags": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3},
}
CHARACTERS = (1, 2, 4, 8)
TOLD: dict[str, dict[str, Any]] = {
    "judged": {"tokens_per_step": 4, "on_error": "redraw", "judged_weight": 1.0, "reduction": "mean"}
    | {"position_temperature": 0.5, "token_temperature": 1.0, "num_mini_batches": 6},
    "own": {
        "tokens_per_step": 4,
        "on_error": "guard",
        "ce_weight": 1.0,
        "ce_target": "own",
        "num_mini_batches": 3,
    },
}
"""The arms that are told by the check alone what can be a record."""
RATES = {"random": 1e-3, "least": 1e-3, "judged": 1e-4, "own": 1e-3}
"""The best of those tried (docs/log.md)."""
Problem = tuple[Sequence[int], Sequence[int]]  # what is given, and a record


def tokenizer() -> PreTrainedTokenizerFast:
    """A token for each character."""
    backend = Tokenizer(models.WordLevel({name: token for token, name in enumerate(NAMES)}))
    backend.decoder = decoders.Fuse()
    special = {"mask_token": "<mask>", "eos_token": "<eos>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


class Records(TextBatch):
    """Problems, every record of which is right."""

    pattern = Pattern(tokenizer(), schema={"type": "object", "properties": FIELDS, "required": list(FIELDS)})


class RecordTask:
    """A colon, then a record."""

    record_classes: ClassVar[tuple[type, ...]] = (Records,)

    def batch(self, problems: Sequence[Problem]) -> Records:
        """The problems as tensors."""
        given, answers = (torch.tensor(each) for each in zip(*problems, strict=True))
        batch = Records.of(tokenizer(), [":"] * len(problems), LENGTH, MASK)
        return replace(batch, responses=given, answers=answers)


def draw(count: int, seed: int) -> list[Problem]:
    """Random records, of which two to six tokens are given."""
    drawn, problems = Random(seed), []
    for _ in range(count):
        words = ["".join(drawn.choices(LETTERS, k=drawn.randint(1, 3))) for _ in range(drawn.randint(2, 4))]
        record = {"name": words[0], "age": drawn.randint(0, 99), "tags": words[1:]}
        text = [*json.dumps(record, separators=(",", ":")), "<eos>", *["<pad>"] * LENGTH][:LENGTH]
        answer, given = [NAMES.index(name) for name in text], drawn.sample(range(LENGTH), drawn.randint(2, 6))
        problems.append(([token if place in given else MASK for place, token in enumerate(answer)], answer))
    return problems


def least(batch: Records) -> torch.Tensor:
    """Write place by place the least token that leaves a record, `(Q, 52)`: the label that is a rule."""
    answers, look = batch.responses.clone(), batch.look(batch, batch.responses, torch.arange(len(batch)))
    for place in range(LENGTH):
        rows = (answers[:, place] == MASK).nonzero().squeeze(1)
        places = torch.full_like(rows, place)
        tokens = look.tokens(rows, places, len(NAMES)).byte().argmax(1)
        look.write(rows, places, tokens[:, None])
        answers[rows, place] = tokens
    return answers


@dataclass
class Arguments(TrialArguments):
    """The problems, beside what every comparison takes."""

    start_steps: int = field(default=400, metadata={"help": "Updates of the start."})
    problems: int = field(default=5000, metadata={"help": "Problems to train on, others for each seed."})
    test_problems: int = field(default=400, metadata={"help": "Held-out ones."})
    cpu_seconds: float = field(default=60.0, metadata={"help": "What each arm may spend, in CPU seconds."})
    rates: list[str] = field(default_factory=list, metadata={"help": rates_help(RATES)})

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen_rates(RATES, self.rates)


class Form(Trial):
    """The comparison."""

    ARMS: ClassVar[Mapping[str, str]] = {
        "random": "SFT on random records",
        "least": "SFT on the least record",
        "judged": "judged decisions",
        "own": "imitation of own guarded decodes",
    }
    CONTROL = "least"
    FIGURES: ClassVar[Mapping[str, str]] = {
        **{f"valid_{k}": f"{k} a pass, %" for k in CHARACTERS},
        "passes": "passes by the check, all at once",
    }
    args: Arguments

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """A model that has learned from random records for a while."""
        sizes = {"d_model": 64, "n_layers": 3, "n_heads": 4, "mlp_hidden_size": 128, "max_sequence_length": 64}
        ids = {"mask_token_id": MASK, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
        model = LladaForMaskedLM(LladaConfig(vocab_size=len(NAMES), rope_theta=100.0, **sizes, **ids))
        trainer, budget = self.trainer("start", model, seed, folder), Budget("steps", self.args.start_steps)
        train_job(trainer, budget, None, lambda share: None, warmup_share=0.05, decay_share=0.3)
        return model

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm, or of the start."""
        problems, rates = draw(self.args.problems, 1 + seed), {"start": 2e-3} | chosen_rates(RATES, self.args.rates)
        settings = short_training(folder, 32 if arm in TOLD else 128, seed, rates[arm])
        if arm in TOLD:
            shared = {"num_generations": 1, "policy_weight": 0.0, "f_weight": 0.0}
            return UnmaskTrainer(model, UnmaskArguments(**settings, **shared, **TOLD[arm]), problems, RecordTask())
        batch = RecordTask().batch(problems)
        if arm == "least":
            batch = replace(batch, answers=least(batch))
        return SftTrainer(model=model, args=SftArguments(**settings), train_dataset=SftDataset(batch))

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Which held-out problems end as records at four a pass, and the share in other ways of decoding."""
        batch = RecordTask().batch(draw(self.args.test_problems, 0))
        right = {}
        for k in CHARACTERS:
            found = decode(model, batch, Decoding("margin", tokens_per_step=k))
            right[k] = batch.completable(found.responses, torch.arange(len(batch)))
        guarded = decode(model, batch, Decoding("margin", tokens_per_step=None, guard=Records.pattern))
        figures = {f"valid_{k}": 100 * float(each.float().mean()) for k, each in right.items()}
        figures["passes"] = float(guarded.forward_passes.float().mean())
        return figures, {"solved": right[4].numpy()}


if __name__ == "__main__":
    run_trial(Form, Arguments, __doc__ or "")
