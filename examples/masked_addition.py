"""A task of one's own: masked addition, where the carries say which digit can be written now.

The prompt is two numbers of the same width, the answer their sum, and any masked digit may be written next. A digit is
definite when the carry into its column is known: in the last column; where the column to its right adds up to anything
but 9, which carries or does not whatever comes from further right; and where that column's digit is written. Columns
of sum 9 pass carries on, so a wrong order has to guess. A model is trained by masked-diffusion SFT, then by the
objective, and judged on sums that it has not seen.

    python examples/masked_addition.py [--width 6] [--sft_steps 400] [--rl_steps 100]
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from transformers import PrinterCallback, ProgressCallback, Trainer, set_seed
from transformers.utils import logging

from dllm_rl import (
    LladaConfig,
    LladaForMaskedLM,
    SftArguments,
    SftDataset,
    SftTrainer,
    UnmaskArguments,
    UnmaskBatch,
    UnmaskTrainer,
    evaluate,
)

PLUS, EQUALS, MASK = 10, 11, 12  # tokens; those of the digits are the digits

Sum = tuple[int, int]


@dataclass(frozen=True, eq=False, kw_only=True)
class AdditionBatch(UnmaskBatch):
    """Q sums; every digit is judged.

    Attributes:
        columns: int64 `(Q, R)`, the sum of the two digits of each column without carry, 0 in the first.
    """

    columns: Tensor

    per_problem: ClassVar[tuple[str, ...]] = (*UnmaskBatch.per_problem, "columns")

    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        """The masked digits whose carry is known, bool `(N, R)`, in responses `(N, R)` of the sums `(N,)`."""
        sure = (self.columns[of] != 9) | (responses != MASK)  # the carry out of these columns is known
        last = torch.ones_like(sure[:, :1])
        return (responses == MASK) & torch.cat([sure[:, 1:], last], dim=1)


@dataclass(frozen=True)
class AdditionTask:
    """Sums of two numbers of `width` digits."""

    width: int

    record_classes: ClassVar[tuple[type, ...]] = (AdditionBatch,)

    def batch(self, problems: Sequence[Sum]) -> AdditionBatch:
        """The sums as tensors."""
        first, second = (torch.tensor([self._digits(pair[index], self.width) for pair in problems]) for index in (0, 1))
        answers = torch.tensor([self._digits(a + b, self.width + 1) for a, b in problems])
        plus, equals = (torch.full_like(first[:, :1], token) for token in (PLUS, EQUALS))
        return AdditionBatch(
            prompt_ids=torch.cat([first, plus, second, equals], dim=1),
            prompt_mask=None,
            responses=torch.full_like(answers, MASK),
            answers=answers,
            judged=torch.ones_like(answers, dtype=torch.bool),
            scored=torch.zeros_like(answers, dtype=torch.bool),
            mask_id=MASK,
            columns=torch.nn.functional.pad(first + second, (1, 0)),
        )

    @staticmethod
    def _digits(number: int, width: int) -> list[int]:
        return [int(digit) for digit in f"{number:0{width}d}"]


def draw_sums(count: int, width: int, seed: int) -> list[Sum]:
    """Different sums in which half of the columns add up to 9."""
    generator, found = torch.Generator().manual_seed(seed), dict[Sum, None]()
    while len(found) < count:
        first, second = torch.randint(10, (2, width), generator=generator)
        second = torch.where(torch.rand(width, generator=generator) < 0.5, 9 - first, second)
        found[tuple(int("".join(map(str, number.tolist()))) for number in (first, second))] = None  # type: ignore[index]
    return list(found)


def quiet(trainer: Trainer) -> Trainer:
    """Neither printed log lines nor a bar."""
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    return trainer


def main() -> None:
    """Train and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=6)
    parser.add_argument("--sft_steps", type=int, default=400)
    parser.add_argument("--rl_steps", type=int, default=100)
    given = parser.parse_args()
    logging.set_verbosity_error()
    set_seed(0)
    task, sums = AdditionTask(given.width), draw_sums(4256, given.width, seed=0)
    train, test = sums[:4000], sums[4000:]
    model = LladaForMaskedLM(
        LladaConfig(
            d_model=64,
            n_layers=3,
            n_heads=4,
            mlp_hidden_size=128,
            rope_theta=100.0,
            vocab_size=13,
            max_sequence_length=64,
            mask_token_id=MASK,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        )
    )

    def show(name: str) -> None:
        found = evaluate(model, test, task)
        order = 100 * found.greedy_definite
        print(
            f"{name}: {100 * found.solved.mean():.1f} % of {len(test)} new sums right, {order:.1f} % of steps definite"
        )

    with tempfile.TemporaryDirectory() as folder:
        common = {"save_strategy": "no", "report_to": "none", "use_cpu": not torch.cuda.is_available()}
        supervised = SftArguments(
            f"{folder}/sft", max_steps=given.sft_steps, per_device_train_batch_size=128, learning_rate=2e-3, **common
        )
        quiet(SftTrainer(model=model, args=supervised, train_dataset=SftDataset(task.batch(train)))).train()
        show("after SFT")
        args = UnmaskArguments(
            f"{folder}/rl",
            max_steps=given.rl_steps,
            per_device_train_batch_size=32,
            num_generations=4,
            position_temperature=1.0,
            ce_weight=1.0,
            learning_rate=1e-3,
            **common,
        )
        quiet(UnmaskTrainer(model, args, train, task)).train()
        show("after the objective")


if __name__ == "__main__":
    main()
