"""Started by torchrun: trains once for each set of arguments; writes down logs, final weights, passes and errors.

Arguments of a run beside those of the trainer: "lora", a rank; "dtype"; "resume", a checkpoint; "breaks", what goes
wrong. A run "uneven" trains nothing: each process takes another number of passes.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import llm_rl.training.sharding
from llm_rl.training.lora import add_lora
from llm_rl.training.passes import Shards
from llm_rl.training.sharding import whole
from tests.dllm_rl.helpers.tiny_training import new_model, trainer, warm_model

PASSES = (1, 6, 0)
"""Passes with gradient of each process in "uneven"; before them it takes twice as many without."""
AT_ONCE = (1, 2, 1)
"""How many of them have one backward pass together."""


def batch_of(number: int) -> dict[str, Tensor]:
    """The input of a pass."""
    tokens = torch.randint(3, 8, (2, 6), generator=torch.Generator().manual_seed(number))
    return {"input_ids": tokens, "logits_mask": torch.ones_like(tokens, dtype=torch.bool)}


def loss_of(model: nn.Module, number: int) -> Tensor:
    """A number that every weight has a share in."""
    loss: Tensor = model(**batch_of(number)).logits.log_softmax(-1)[:, number % 5].square().sum()
    return loss


def uneven(stem: str, dtype: torch.dtype = torch.float64) -> None:
    """Take passes, as many as `PASSES` says, and write down the gradients; then one that has no gradient."""
    rank, model = int(os.environ["RANK"]), new_model().to(dtype)
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo")
    shards = Shards(60.0)
    shards.add(model, lambda: model(**batch_of(0)), head_apart=True)
    with shards.together():
        with torch.no_grad():
            for number in range(2 * PASSES[rank]):
                loss_of(model, number)
        for first in range(0, PASSES[rank], AT_ONCE[rank]):
            losses = [loss_of(model, 10 * rank + first + number) for number in range(AT_ONCE[rank])]
            shards.backward(torch.stack(losses).sum(), lambda loss: loss.backward())
    gradients = {name: whole(each.grad).clone() for name, each in model.named_parameters()}
    with shards.together():
        if rank == 0:
            loss_of(model, 0)
            shards.backward(torch.zeros(()), lambda loss: loss.backward())
    assert all(torch.equal(whole(each.grad), gradients[name]) for name, each in model.named_parameters())
    save_file(gradients, f"{stem}.safetensors")


class Breaking:
    """Makes the last process fail in its second roll-out."""

    def __init__(self, run: Any, how: str) -> None:
        self.run, self.how, self.calls = run, how, 0
        self.inner = run._make_rollout
        run._make_rollout = self

    def __call__(self, model: nn.Module, inputs: Any) -> Any:
        self.calls += 1
        if self.calls == 2 and self.run.args.process_index == self.run.args.world_size - 1:
            if self.how == "die":
                os._exit(0)  # without a word
            if self.how == "not finite":
                raise FloatingPointError("a number of this process is not finite")
            raise ValueError("a row cannot be read")
        return self.inner(model, inputs)


def play(folder: Path, stem: str, settings: dict[str, Any]) -> None:
    """Train once."""
    changes = dict(settings)
    rank, dtype = changes.pop("lora", 0), getattr(torch, changes.pop("dtype", "float64"))
    breaks, resume = changes.pop("breaks", None), changes.pop("resume", None)
    model = warm_model().to(dtype)
    torch.manual_seed(5)  # of the adapters
    run: Any = trainer(folder, add_lora(model, r=rank) if rank else model, **changes)
    kept = llm_rl.training.sharding.fully_shard
    if breaks == "unsharded":
        llm_rl.training.sharding.fully_shard = lambda *args, **options: None
    elif breaks:
        Breaking(run, breaks)
    told, began = {"error": None}, time.monotonic()
    try:
        run.train(resume_from_checkpoint=resume)
        trained = ((name, weight) for name, weight in run.model.named_parameters() if weight.requires_grad)
        save_file({name: whole(weight.detach()).clone() for name, weight in trained}, f"{stem}.safetensors")
    except Exception as error:
        told["error"] = [type(error).__name__, str(error)]
    llm_rl.training.sharding.fully_shard = kept
    told |= {"logs": run.state.log_history, "seconds": time.monotonic() - began}
    Path(f"{stem}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    torch.set_num_threads(1)
    where = Path(sys.argv[1])
    for name, settings in json.loads(sys.argv[2]).items():
        stem = f"{where / name}-rank{os.environ.get('RANK', 0)}"
        if name.startswith("uneven"):
            uneven(stem, **({"dtype": torch.bfloat16} if name.endswith("bfloat16") else {}))
        else:
            play(where / name, stem, settings)
