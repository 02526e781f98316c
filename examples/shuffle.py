"""Another task with several right answers: any order of six items but the one that they are given in.

It is ParallelBench's *shuffle* (arXiv 2510.04767), for a small model, with the arms of `several_answers.py`. The
canonical label is the order that is least by the items' places: as given, with the last two swapped.

    OMP_NUM_THREADS=1 python examples/shuffle.py [--seeds 0] [--judged 1000]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import ClassVar

import torch
import torch.nn.functional as F
from several_answers import Ideal, Lab, arguments, compare, tell
from torch import Tensor

from dllm_rl import UnmaskBatch

LENGTH, ITEMS = 6, 12
SEPARATOR, MASK = ITEMS, ITEMS + 1  # tokens; those of the items are 0 to 11
Problem = tuple[tuple[int, ...], tuple[int, ...]]
"""A list of different items, and an answer."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ShuffleBatch(UnmaskBatch):
    """Q lists, every other order of which is right."""

    @property
    def several(self) -> bool:
        """Yes."""
        return True

    def completable(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether what is written are items of the list, none twice, and another order can still come of it."""
        items = self.prompt_ids[of, :LENGTH]
        times = (responses[:, None] == items[:, :, None]).sum(2)  # (N, 6), how often each item is written
        left = (responses == MASK).sum(1)
        moved = ((responses != items) & (responses != MASK)).any(1)
        return (times <= 1).all(1) & (times.sum(1) + left == LENGTH) & (moved | (left >= 2))

    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        """No position: judged decisions ask for none."""
        return torch.zeros_like(responses, dtype=torch.bool)


@dataclass(frozen=True)
class ShuffleTask:
    """The list and a separator, then another order of it."""

    record_classes: ClassVar[tuple[type, ...]] = (ShuffleBatch,)

    def batch(self, problems: Sequence[Problem]) -> ShuffleBatch:
        """The lists as tensors."""
        items, answers = (torch.tensor([problem[i] for problem in problems]) for i in (0, 1))
        judged = torch.ones_like(answers, dtype=torch.bool)
        return ShuffleBatch(
            prompt_ids=F.pad(items, (0, 1), value=SEPARATOR),
            prompt_mask=None,
            responses=torch.full_like(answers, MASK),
            answers=answers,
            judged=judged,
            scored=~judged,
            mask_id=MASK,
        )


@cache
def orders() -> Tensor:
    """All orders of six places but the given one, int64 `(719, 6)`, the least first."""
    return torch.tensor(list(permutations(range(LENGTH)))[1:])


def draw_lists(count: int, seed: int, exclude: Sequence[Problem] = ()) -> list[Problem]:
    """Lists of different items, each with another order of it, drawn evenly."""
    generator, left_out, found = torch.Generator().manual_seed(seed), {items for items, _ in exclude}, []
    while len(found) < count:
        items = torch.randperm(ITEMS, generator=generator)[:LENGTH]
        order = orders()[torch.randint(len(orders()), (), generator=generator)]
        if (given := tuple(items.tolist())) not in left_out:
            found.append((given, tuple(items[order].tolist())))
    return found


def canonical(problems: Sequence[Problem]) -> list[Problem]:
    """The same lists with their last two items swapped."""
    return [(items, tuple(items[place] for place in orders()[0].tolist())) for items, _ in problems]


def counts(input_ids: Tensor) -> Tensor:
    """How many of the orders that agree with a state have each item at each place, `(N, 13, 14)`, 0 elsewhere."""
    items, written = input_ids[:, :LENGTH], input_ids[:, LENGTH + 1 :]
    agree = ((items[:, orders()] == written[:, None]) | (written == MASK)[:, None]).all(2).double()  # (N, 719)
    at_place = torch.einsum("no,orp->nrp", agree, F.one_hot(orders(), LENGTH).double())  # by the places in the list
    found = torch.einsum("nrp,npv->nrv", at_place, F.one_hot(items, MASK + 1).double())
    return F.pad(found, (0, 0, LENGTH + 1, 0))


def main() -> None:
    """Train, measure and print."""
    passes = (1, 2, 3, 6)
    given, results = arguments(__doc__, start=400, supervised=1200, judged=1000), []
    for seed in given.seeds:
        test = draw_lists(given.test_problems, seed=2 * seed + 1)
        train = draw_lists(given.problems, seed=2 * seed, exclude=test)
        lab = Lab(ShuffleTask(), test, test[0], seed, passes=passes, cells=3)
        start = lab.new_model(MASK + 1)
        lab.supervised(start, train, given.start)
        ideal = {"perfect marginals": [float("nan"), *lab.row(Ideal(counts))]}
        results.append({**ideal, **compare(lab, start, train, canonical(train), given.supervised, given.judged)})
    tell(results, passes)


if __name__ == "__main__":
    main()
