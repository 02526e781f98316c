"""The order in which roll-outs take the examples of a data set."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import Sampler


class RepeatedBatchSampler(Sampler[int]):
    """Shuffled indices in which every block of `block` is repeated, for several updates on one roll-out.

    The order depends on the seed and the epoch alone; what does not fill a block at the end of an epoch is left out,
    and fewer examples than one block are a `ValueError`.
    """

    def __init__(self, length: int, block: int, repeats: int, seed: int) -> None:
        if length < block:
            raise ValueError(f"{length} examples do not fill one batch of {block}; add some or shrink batches")
        self.length, self.block, self.repeats, self.seed, self.epoch = length, block, repeats, seed, 0

    def __len__(self) -> int:
        return self.length // self.block * self.block * self.repeats

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        self.epoch = epoch

    def block_at(self, index: int) -> list[int]:
        """The examples of block `index`, counted over all epochs from 0."""
        epoch, place = divmod(index, self.length // self.block)
        order = self._order(epoch)
        return order[place * self.block : (place + 1) * self.block].tolist()

    def _order(self, epoch: int) -> Tensor:
        return torch.randperm(self.length, generator=torch.Generator().manual_seed(self.seed + epoch))

    def __iter__(self) -> Iterator[int]:
        for block in self._order(self.epoch).split(self.block):
            if len(block) == self.block:
                for _ in range(self.repeats):
                    yield from block.tolist()
