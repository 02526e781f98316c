"""Started by torchrun: trains in float64 for each set of arguments; writes down this process's gradients and logs.

Arguments with a `kind` of "sft" are those of masked-diffusion fine-tuning.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.dllm_rl.helpers.tiny_training import KeepGradients, sft_trainer, trainer, warm_model

torch.set_num_threads(1)
folder = Path(sys.argv[1])
for name, changes in json.loads(sys.argv[2]).items():
    kept = KeepGradients()
    make = sft_trainer if changes.pop("kind", None) == "sft" else trainer
    run = make(folder / name, warm_model().double(), callbacks=[kept], **changes)
    run.train()
    stem = folder / f"{name}-rank{run.args.process_index}"
    save_file(kept.tensors(), stem.with_suffix(".safetensors"))
    stem.with_suffix(".json").write_text(json.dumps(run.state.log_history))
