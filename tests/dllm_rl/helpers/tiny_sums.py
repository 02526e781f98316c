"""A task that is no Sudoku: the digits a+b, a+b+1, … modulo 10, written after the two digits a and b."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.task import UnmaskBatch
from tests.dllm_rl.helpers.tiny_llada import make_model

MASK, LENGTH = 10, 4


@dataclass(frozen=True, eq=False, kw_only=True)
class SumBatch(UnmaskBatch):
    """Sums; a digit is definite as soon as its left neighbor is written.

    The last digit is not judged. After an even sum it is scored, after an odd one any token earns λ.

    Attributes:
        weight: float32 `(Q,)`, a column that the library knows nothing of.
        name: A field that the library knows nothing of either.
    """

    weight: Tensor
    name: str

    per_problem: ClassVar[tuple[str, ...]] = (*UnmaskBatch.per_problem, "weight")

    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        """bool `(N, R)`: judged positions that are open and whose left neighbor, if any, is not."""
        written = responses != self.mask_id
        left = torch.cat([torch.ones_like(written[:, :1]), written[:, :-1]], dim=1)
        return left & ~written & self.judged[of]


@dataclass(frozen=True)
class SumTask:
    """Pairs of digits as problems."""

    name: str = "sums"

    record_classes: ClassVar[tuple[type, ...]] = (SumBatch,)

    def batch(self, problems: Sequence[tuple[int, int]]) -> SumBatch:
        """The pairs as tensors."""
        prompts = torch.tensor(problems)
        answers = (prompts.sum(1, keepdim=True) + torch.arange(LENGTH)) % 10
        judged = (torch.arange(LENGTH) < LENGTH - 1).expand(len(prompts), LENGTH).clone()
        return SumBatch(
            prompt_ids=prompts, prompt_mask=None, responses=torch.full_like(answers, MASK), answers=answers,
            judged=judged, scored=~judged & (answers[:, :1] % 2 == 0), mask_id=MASK, weight=torch.ones(len(prompts)),
            name=self.name,
        )  # fmt: skip


def sum_model() -> LladaForMaskedLM:
    """An untrained model of the ten digits and the mask."""
    return make_model(vocab_size=11, mask_token_id=MASK)
