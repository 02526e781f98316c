"""Batches of VAPOR with random numbers, masks and pairs."""

import torch

from llm_rl.vapor import PreferencePair, VaporBatch


def random_batch(seed: int, columns: int, scale: float = 0.5) -> VaporBatch:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)

    def chance(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator) < 0.5

    shape = (3, 4, 5)
    chosen, rejected = (3, columns, 2), (3, columns, 3)
    parts = normal(*chosen), normal(*chosen), chance(*chosen), normal(*rejected), normal(*rejected), chance(*rejected)
    spans = chance(*shape) & chance(3, 4, 1)
    return VaporBatch(
        normal(*shape), normal(*shape), normal(*shape), spans | chance(*shape), spans, normal(3, 4),
        PreferencePair(*parts),
    )  # fmt: skip
