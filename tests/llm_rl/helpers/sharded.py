"""Started by torchrun: trains once for each set of arguments; writes down logs, gradients and final weights.

Arguments of a run beside those of its trainer: "kind", which one; "lora", a rank; "own", whether the model samples
itself; "tied", whether its head is its embedding; "resume", a checkpoint.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from llm_rl.training.lora import add_lora
from llm_rl.training.sharding import whole
from tests.llm_rl.helpers import tiny_dpo, tiny_grpo, tiny_ppo, tiny_raro, tiny_vapor
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import KeepGradients, distinct_rows, go_on, new_model

KINDS: dict[str, Any] = {"grpo": tiny_grpo, "ppo": tiny_ppo, "dpo": tiny_dpo, "vapor": tiny_vapor, "raro": tiny_raro}


def made(kind: str, folder: Path, kept: KeepGradients, changes: dict[str, Any]) -> Any:
    """The trainer, in float64."""
    adapters, own, tied = changes.pop("lora", 0), changes.pop("own", False), changes.pop("tied", False)
    given: dict[str, Any] = {"callbacks": [kept]}
    options: dict[str, Any] = {}
    if kind == "vapor":
        model = tiny_vapor.tag_model(torch.float64)
        given["ref_model"] = tiny_vapor.shifted_model()
    elif kind == "raro":
        model = tiny_raro.raro_model(torch.float64)
    else:
        model = new_model(dtype=torch.float64, tie_word_embeddings=tied)
    if kind in ("grpo", "ppo"):
        options["data"] = distinct_rows()
        given |= {} if own else {"engine": FixedEngine()}
        given |= {"next_turn": go_on} if changes.get("max_turns", 1) > 1 else {}
    if adapters:
        torch.manual_seed(5)
        model = add_lora(model, r=adapters, target_modules=["q_proj", "o_proj", "down_proj"])
        for name, weight in model.named_parameters():
            if "lora_B" in name:  # so that adapters at the start are something
                torch.nn.init.normal_(weight, std=0.1)
    run = KINDS[kind].trainer(folder, model, given=given, **options, **changes)
    if kind == "ppo":
        run.value_function.head.weight.data += 0.1
    return run


def play(folder: Path, stem: str, settings: dict[str, Any]) -> None:
    """Train once."""
    changes, kept = dict(settings), KeepGradients()
    resume, kind = changes.pop("resume", None), changes.pop("kind")
    told: dict[str, Any] = {"error": None, "logs": []}
    try:
        run = made(kind, folder, kept, changes)
        run.train(resume_from_checkpoint=resume)
        told["logs"] = run.state.log_history
        steps = {f"{step}.{name}": value for step, found in enumerate(kept.steps) for name, value in found.items()}
        named = ((name, each) for name, each in run.model.named_parameters() if each.requires_grad)
        ends = {f"end.{name}": whole(each.detach()).clone() for name, each in named}
        save_file({**steps, **ends}, f"{stem}.safetensors")
        if kind in ("grpo", "dpo"):
            told["evaluated"] = run.evaluate(run.train_dataset)
    except Exception as error:
        told["error"] = [type(error).__name__, str(error)]
    Path(f"{stem}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    torch.set_num_threads(1)
    where = Path(sys.argv[1])
    for name, settings in json.loads(sys.argv[2]).items():
        play(where / name, f"{where / name}-rank{os.environ.get('RANK', 0)}", settings)
