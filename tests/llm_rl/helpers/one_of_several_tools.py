"""Started by torchrun: trains with a tool once for each set of arguments and writes down gradients and logs."""

import json
import sys
from pathlib import Path

from safetensors.torch import save_file

from tests.llm_rl.helpers.tiny_grpo import KeepGradients
from tests.llm_rl.helpers.tool_runs import fixed_player, trainer

folder = Path(sys.argv[1])
for index, changes in enumerate(json.loads(sys.argv[2])):
    kept = KeepGradients()
    run = trainer(changes.pop("kind"), folder / str(index), fixed_player(), [kept], **changes)
    run.train()
    stem = folder / f"{index}-rank{run.args.process_index}"
    save_file(kept.steps[-1], stem.with_suffix(".safetensors"))
    stem.with_suffix(".json").write_text(json.dumps(run.state.log_history))
