"""LLaDA in the units that FSDP2 shards: every weight is read through the module that owns it."""

import copy
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from llm_rl.training.lora import add_lora
from llm_rl.training.sharding import units
from tests.dllm_rl.helpers.tiny_llada import make_model


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """One process is enough: a weight read past its module would be a DTensor among tensors."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_sharded_by_block_embedding_and_head_nothing_changes(mesh) -> None:
    model = add_lora(make_model().bfloat16(), r=2)
    plain = copy.deepcopy(model)
    base, parts = model.get_base_model(), units(model, head_apart=True)
    assert parts == [*base.model.transformer.blocks, base.get_input_embeddings(), base.get_output_embeddings()]
    for unit in parts:
        fully_shard(unit, mesh=mesh)
    fully_shard(model, mesh=mesh)
    assert all(isinstance(parameter, DTensor) for parameter in model.parameters())
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, 105, (2, 8), generator=generator)
    for _ in range(2):
        chosen = torch.rand(2, 8, generator=generator) < 0.5
        sharded, whole = (one(input_ids=tokens, logits_mask=chosen).logits for one in (model, plain))
        assert torch.equal(sharded, whole)
        for logits in (sharded, whole):
            logits.logsumexp(-1).sum().backward()
    for found, expected in zip(model.parameters(), plain.parameters(), strict=True):
        assert (found.grad is None) == (expected.grad is None)
        if expected.grad is not None:
            assert torch.equal(found.grad.full_tensor(), expected.grad)
