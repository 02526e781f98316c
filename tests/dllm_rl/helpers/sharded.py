"""Started by torchrun: trains once for each set of arguments; writes down logs, final weights, passes and errors.

Arguments of a run beside those of the trainer: "lora", a rank; "breaks", what goes wrong in the last process at step 1.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from llm_rl.training.lora import add_lora
from llm_rl.training.sharding import whole
from tests.dllm_rl.helpers.tiny_training import trainer, warm_model


class Breaking:
    """Makes the last process fail at step 1 of a run."""

    def __init__(self, run: Any, how: str) -> None:
        self.run, self.how = run, how
        self.inner = run._make_rollout
        run._make_rollout = self

    def __call__(self, model: nn.Module, inputs: Any) -> Any:
        last = self.run.args.process_index == self.run.args.world_size - 1
        if self.run.state.global_step == 1 and last:
            if self.how == "die":
                os._exit(0)  # without a word
            if self.how == "raise":
                raise FloatingPointError("a number of this process is not finite")
            if self.how == "value":
                raise ValueError("a row cannot be read")
        return self.inner(model, inputs)


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """All that is trained, in full."""
    named = ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)
    return {name: whole(parameter.detach()).clone() for name, parameter in named}


def play(folder: Path, stem: str, changes: dict[str, Any]) -> None:
    """Train once."""
    rank, dtype = changes.pop("lora", 0), getattr(torch, changes.pop("dtype", "float64"))
    breaks, resume = changes.pop("breaks", None), changes.pop("resume", None)
    model = warm_model().to(dtype)
    torch.manual_seed(5)  # of the adapters
    run: Any = trainer(folder, add_lora(model, r=rank) if rank else model, **changes)
    passes = [0]
    run.model.register_forward_pre_hook(lambda *_: passes.__setitem__(0, passes[0] + 1))
    if breaks:
        Breaking(run, breaks)
    told: dict[str, Any] = {"error": None}
    began = time.monotonic()
    try:
        run.train(resume_from_checkpoint=resume)
        save_file(weights(run.model), f"{stem}.safetensors")
    except Exception as error:
        told["error"] = [type(error).__name__, str(error)]
    told |= {"logs": run.state.log_history, "passes": passes[0], "seconds": time.monotonic() - began}
    Path(f"{stem}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    torch.set_num_threads(1)
    where = Path(sys.argv[1])
    for name, settings in json.loads(sys.argv[2]).items():
        play(where / name, f"{where / name}-rank{os.environ.get('RANK', 0)}", settings)
