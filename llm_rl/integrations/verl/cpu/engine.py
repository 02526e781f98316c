"""verl's FSDP2 engine on a processor, registered for the platform `cpu`."""

from dataclasses import replace
from functools import partial

from torch import nn
from verl.utils.distributed import initialize_global_process_group_ray
from verl.workers import engine_workers
from verl.workers.config import FSDPEngineConfig
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import FSDPEngineWithLMHead

# verl asks torch for "cpu:gloo" and a backend of the device, which for a processor is "cpu:gloo,cpu:gloo" and refused.
engine_workers.initialize_global_process_group_ray = partial(initialize_global_process_group_ray, backend="gloo")


@EngineRegistry.register(model_type="language_model", backend="fsdp2", device="cpu")
class CPUEngine(FSDPEngineWithLMHead):
    """FSDP2 over gloo, with the frozen reference in host memory as everything else is.

    verl registers its engines for "cuda" and "npu", and wraps a model that only reads (`forward_only`, the reference)
    with `CPUOffloadPolicy(pin_memory=True)`, which needs an accelerator to pin memory for.
    """

    engine_config: FSDPEngineConfig

    def _build_fsdp_module(self, module: nn.Module) -> nn.Module:
        given = self.engine_config
        if given.offload_policy or given.param_offload or given.optimizer_offload:
            raise ValueError(
                "on a processor everything is in host memory already; leave offload_policy, param_offload and "
                "optimizer_offload at False"
            )
        self.engine_config = replace(given, forward_only=False)
        try:
            return super()._build_fsdp_module(module)
        finally:
            self.engine_config = given
