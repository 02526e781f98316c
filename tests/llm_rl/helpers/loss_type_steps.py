"""One optimizer step of a tiny policy under a loss type, whole or dealt to processes that torchrun starts."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from llm_rl.core import aggregate_loss, clipped_surrogate, linear_token_statistics, loss_counts

LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo")
ROWS, LENGTH, VOCABULARY = 8, 6, 11


class TinyPolicy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(VOCABULARY, 5, dtype=torch.float64)
        self.head = nn.Linear(5, VOCABULARY, bias=False, dtype=torch.float64)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = torch.tanh(self.embedding(ids[:, :-1]))
        return linear_token_statistics(hidden, self.head.weight, ids[:, 1:], row_chunk=3, vocab_chunk=4).logprobs


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ids, mask, old log-probabilities and advantages: lengths from 5 to 0, so one row is fully masked."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(VOCABULARY, (ROWS, LENGTH), generator=generator)
    lengths = torch.tensor([5, 1, 4, 0, 2, 5, 3, 1])
    mask = torch.arange(LENGTH - 1) < lengths[:, None]
    old = torch.randn(ROWS, LENGTH - 1, generator=generator, dtype=torch.float64) * 0.3 - 2.4
    return ids, mask, old, torch.randn(ROWS, 1, generator=generator, dtype=torch.float64)


def gradients(loss_type: str, micro_batches: list[list[int]], *, world_size: int = 1) -> dict[str, Tensor]:
    """The gradient after the backward passes of this process's micro-batches, given by their rows."""
    ids, mask, old, advantages = batch()
    policy: nn.Module = TinyPolicy()
    if world_size > 1:
        policy = DistributedDataParallel(policy)
    counts = loss_counts(*(mask[rows] for rows in micro_batches), reduce=world_size > 1)
    max_length = 5 if loss_type == "dr_grpo" else None
    for rows in micro_batches:
        objective = clipped_surrogate(policy(ids[rows]), old[rows], advantages[rows], 0.2, 0.2).objective
        loss = -aggregate_loss(objective, mask[rows], loss_type, counts, max_length=max_length)  # type: ignore[arg-type]
        (loss * world_size).backward()
    return {name.removeprefix("module."): p.grad for name, p in policy.named_parameters() if p.grad is not None}


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    dealt = [[[0], [3, 1]], [[2, 5, 4], [6, 7]]][rank]
    for name in LOSS_TYPES:
        save_file(gradients(name, dealt, world_size=2), Path(sys.argv[1], f"{name}-{rank}.safetensors"))
    dist.destroy_process_group()
