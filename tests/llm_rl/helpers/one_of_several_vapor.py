"""One of two processes: its half of a VAPOR step, gradients and log written down. Arguments: folder, settings."""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.llm_rl.helpers.tiny_grpo import KeepGradients
from tests.llm_rl.helpers.tiny_vapor import shifted_model, tag_model, trainer

folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
kept = KeepGradients()
given = {"callbacks": [kept], "ref_model": shifted_model()}
run = trainer(
    folder, tag_model(torch.float64), given=given, per_device_train_batch_size=8, expected_processes=2, **settings
)
run.train()
save_file(kept.steps[0], folder / f"rank{run.args.process_index}.safetensors")
(folder / f"rank{run.args.process_index}.json").write_text(json.dumps(run.state.log_history))
