"""What the trials on SmolLM2 share: the base, adapters on it, and expert answers to learn from."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PrinterCallback, Trainer

from llm_rl import add_lora, supervised_trainer
from llm_rl.training import RunArguments, need_model
from scripts.shared.smollm2 import SMOLLM2_FOLDER, default_cache_dir, load_smollm2, smollm2_file
from sudoku_dllm.trials.trial import Trial, TrialArguments, short_training

SMOLLM2 = "smollm2"
LORA: Mapping[str, Any] = {
    "r": 16,
    "alpha": 32,
    "target_modules": ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
}
"""The adapters of the start and of all arms."""


@dataclass
class StartArguments(TrialArguments):
    """The base, the start and the rates, which rise and then stay."""

    model: str = field(
        default=SMOLLM2, metadata={"help": f"{SMOLLM2} (scripts.shared.smollm2), or a folder with a tokenizer."}
    )
    sft_steps: int = field(default=10, metadata={"help": "Optimizer steps of the start."})
    sft_batch_size: int = field(default=8, metadata={"help": "Answers in a batch of the start and of the control."})
    sft_learning_rate: float = field(default=2e-3, metadata={"help": "Rate of the start, which falls to 0."})
    control_learning_rate: float = field(default=5e-4, metadata={"help": "Rate of the control."})
    learning_rate: float = field(default=4e-4, metadata={"help": "Rate of what samples."})
    decay_share: float = field(default=0.0, metadata={"help": "Share at the end in which the rate falls to 0."})
    completions: int = field(default=32, metadata={"help": "Completions of a step."})
    num_generations: int = field(default=8, metadata={"help": "Completions of a prompt, where they are compared."})
    test_rows: int = field(default=128, metadata={"help": "Held-out rows."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model != SMOLLM2:
            need_model("model", self.model)
        elif not (default_cache_dir() / SMOLLM2_FOLDER).is_dir():
            smollm2_file()


class FromExperts(Trial):
    """A trial that begins with some supervised steps on expert answers, and trains adapters in each arm."""

    CONTROL: ClassVar[str | None] = "more"
    args: StartArguments

    @property
    @abstractmethod
    def expert_rows(self) -> Sequence[Mapping[str, Any]]:
        """Rows with "prompt" and "chosen", the expert's answer."""

    @cached_property
    def words(self) -> Any:
        """The tokenizer."""
        return load_smollm2()[1] if self.args.model == SMOLLM2 else AutoTokenizer.from_pretrained(self.args.model)

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """The base after some steps on expert answers, with its adapters added to the weights."""
        args = self.args
        model = load_smollm2()[0] if args.model == SMOLLM2 else self.load(Path(args.model))
        schedule = {"max_steps": args.sft_steps, "warmup_steps": min(5, args.sft_steps // 4)}
        trainer = self.supervised(add_lora(model, **LORA), seed, folder, args.sft_learning_rate, **schedule)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return trainer.model.merge_and_unload()

    def load(self, folder: Path) -> PreTrainedModel:
        """See `Trial.load`."""
        return AutoModelForCausalLM.from_pretrained(folder, dtype="float32")

    def supervised(self, model: Any, seed: int, folder: Path, learning_rate: float, **changes: Any) -> Trainer:
        """Training on expert answers."""
        settings = short_training(folder, self.args.sft_batch_size, seed, learning_rate) | changes
        return supervised_trainer(model, RunArguments(**settings), self.expert_rows, self.words)
