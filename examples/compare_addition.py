"""A comparison of one's own: which training learns most from 2,000 sums (`examples/masked_addition.py`).

From one start for each seed, a model that has hardly learned, go on for as many CPU seconds: masked-diffusion SFT on
the same sums, the same with a loss on definite digits alone, and the objective. Held-out sums are decoded two digits a
pass. A comparison is the class below; processes, budgets, resuming, intervals and the table are the library's.

    python examples/compare_addition.py --cpu_seconds 20 --seeds 0 1 2
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from transformers import PreTrainedModel, PrinterCallback, Trainer

from dllm_rl import (
    Decoding,
    LladaConfig,
    LladaForMaskedLM,
    SftArguments,
    SftDataset,
    SftTrainer,
    UnmaskArguments,
    UnmaskTrainer,
    evaluate,
)
from sudoku_dllm.trials.trial import Judgement, Trial, TrialArguments, run_trial, short_training

sys.path.insert(0, str(Path(__file__).parent))
from masked_addition import MASK, AdditionTask, Sum, draw_sums


@dataclass
class Arguments(TrialArguments):
    """The sums and the start, beside what every comparison takes."""

    width: int = field(default=4, metadata={"help": "Digits of the numbers that are added."})
    sums: int = field(default=2000, metadata={"help": "Sums to learn from."})
    start_steps: int = field(default=150, metadata={"help": "Updates of the start."})
    cpu_seconds: float = field(default=20.0, metadata={"help": "What each arm may spend, in CPU seconds."})
    output_dir: str = field(default="runs/addition", metadata={"help": "Run folder."})


class Addition(Trial):
    """The comparison."""

    ARMS: ClassVar[Mapping[str, str]] = {
        "sft": "more SFT",
        "sft_definite": "SFT, a loss on definite digits",
        "objective": "the objective",
    }
    CONTROL = "sft"
    FIGURES: ClassVar[Mapping[str, str]] = {"definite": "greedy position definite, %"}
    args: Arguments

    @property
    def task(self) -> AdditionTask:
        """Sums as problems."""
        return AdditionTask(self.args.width)

    def drawn(self) -> tuple[list[Sum], list[Sum]]:
        """Sums to learn from, and 400 that are held out."""
        found = draw_sums(400 + self.args.sums, self.args.width, seed=0)
        return found[400:], found[:400]

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """A model that has learned from the sums for a while."""
        sizes = {"d_model": 64, "n_layers": 3, "n_heads": 4, "mlp_hidden_size": 128, "max_sequence_length": 64}
        words = {"vocab_size": MASK + 1, "mask_token_id": MASK, "bos_token_id": None, "eos_token_id": None}
        model = LladaForMaskedLM(LladaConfig(**sizes, **words, pad_token_id=None, rope_theta=100.0))
        trainer = self.supervised(model, seed, folder, max_steps=self.args.start_steps)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return model

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm."""
        if arm == "objective":
            settings = short_training(folder, batch_size=32, seed=seed, learning_rate=1e-3)
            options = {"num_generations": 1, "tokens_per_step": 2, "position_temperature": 1.0, "policy_weight": 0.0}
            args = UnmaskArguments(**settings, **options, ce_weight=1.0, ce_on="definite", f_form="log")
            return UnmaskTrainer(model, args, self.drawn()[0], self.task)
        return self.supervised(model, seed, folder, ce_on="masked" if arm == "sft" else "definite")

    def supervised(self, model: PreTrainedModel, seed: int, folder: Path, **changes: Any) -> SftTrainer:
        """SFT on the sums."""
        settings = short_training(folder, batch_size=128, seed=seed, learning_rate=2e-3) | changes
        data = SftDataset(self.task.batch(self.drawn()[0]))
        return SftTrainer(model=model, args=SftArguments(**settings), train_dataset=data)

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Which held-out sums come out right, two digits a pass, and how often the surest digit is definite."""
        found = evaluate(model, self.drawn()[1], self.task, Decoding("margin", tokens_per_step=2))
        return {"definite": 100 * found.greedy_definite}, {"solved": found.solved}


if __name__ == "__main__":
    run_trial(Addition, Arguments, __doc__ or "")
