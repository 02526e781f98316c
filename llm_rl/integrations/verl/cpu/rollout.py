"""The roll-out `hf` of verl: replicas that sample with `model.generate`, and how weights get there.

verl loads it by `actor_rollout_ref.model.external_lib`, in each process that reads the model's configuration, before it
asks for an engine or a roll-out. Importing this registers both.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import ray
import torch
from torch import Tensor
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import RolloutMode, RolloutReplica, RolloutReplicaRegistry

from llm_rl.integrations.verl.cpu import engine as engine  # registers the engine
from llm_rl.integrations.verl.cpu.server import TransformersServer

NAME = "hf"


def server_name(replica_rank: int) -> str:
    """What the actor of a replica is called."""
    return f"{NAME}_server_{replica_rank}"


class TransformersReplica(RolloutReplica):
    """A server beside each training process, which lives as long as the run. For verl's synchronous trainer."""

    async def launch_servers(self) -> None:
        """Start the server; `ValueError` where it would serve no trainer in this place, or span several processes."""
        if self.rollout_mode is not RolloutMode.HYBRID:
            raise ValueError(
                f"rollout.name={NAME} serves a trainer that it shares its place with; set "
                "trainer.v1.trainer_mode=sync and actor_rollout_ref.hybrid_engine=True"
            )
        if self.world_size != 1:
            raise ValueError(f"rollout.name={NAME} does not split a model; set rollout.tensor_model_parallel_size=1")
        name = server_name(self.replica_rank)
        made = ray.remote(TransformersServer).options(name=name, max_concurrency=self.max_concurrency)
        self._server_handle = made.remote(self.config, self.model_config, self.replica_rank)
        self._server_address = name
        self.servers = [self._server_handle]
        await asyncio.gather(*(server.__ray_ready__.remote() for server in self.servers))


class WeightSender(BaseRollout):
    """The trainer's end of a replica: sends it each step's weights, all in one message."""

    @property
    def server(self) -> Any:
        """The replica's server; it is started after the trainer."""
        return ray.get_actor(server_name(torch.distributed.get_rank()))

    async def resume(self, tags: list[str]) -> None:
        """Nothing was released that new weights do not bring."""

    async def release(self) -> None:
        """Let the server answer nothing before new weights."""
        await self.server.sleep.remote()

    async def update_weights(
        self,
        weights: Iterator[tuple[str, Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        **options: Any,
    ) -> None:
        """Send the weights, each of which is gathered when it is asked for, by all processes together.

        `ValueError` where the format is another than "named_tensors", or there is an adapter (`peft_config`).
        """
        if wire_format != "named_tensors" or options.get("peft_config") is not None:
            raise ValueError(f"rollout.name={NAME} takes whole weights; set model.lora.merge=True where there is LoRA")
        named = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        await self.server.update_weights.remote(named, global_steps)


RolloutReplicaRegistry.register(NAME, lambda: TransformersReplica)
_ROLLOUT_REGISTRY[(NAME, "async")] = f"{__name__}.{WeightSender.__name__}"
