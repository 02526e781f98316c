"""One of two processes: its half of RARO's steps, gradients and log written down. Arguments: folder, settings."""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.llm_rl.helpers.tiny_grpo import KeepGradients
from tests.llm_rl.helpers.tiny_raro import IN_PROCESSES, raro_model, trainer

folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
for name, changes in IN_PROCESSES.items():
    kept = KeepGradients()
    run = trainer(
        folder / name,
        raro_model(torch.float64),
        given={"callbacks": [kept]},
        per_device_train_batch_size=8,
        expected_processes=2,
        **{**settings, **changes},
    )
    run.train()
    stem = folder / f"{name}-rank{run.args.process_index}"
    gradients = {f"{step}.{key}": value for step, found in enumerate(kept.steps) for key, value in found.items()}
    save_file(gradients, stem.with_suffix(".safetensors"))
    stem.with_suffix(".json").write_text(json.dumps(run.state.log_history))
