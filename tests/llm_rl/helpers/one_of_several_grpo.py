"""Started by torchrun: trains once for each set of arguments and writes down gradients and logs of this process."""

import json
import sys
from pathlib import Path

from safetensors.torch import save_file

from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import KeepGradients, distinct_rows, trainer

folder = Path(sys.argv[1])
for index, changes in enumerate(json.loads(sys.argv[2])):
    kept = KeepGradients()
    given = {"engine": FixedEngine(), "callbacks": [kept]}
    run = trainer(folder / str(index), data=distinct_rows(), given=given, **changes)
    run.train()
    stem = folder / f"{index}-rank{run.args.process_index}"
    save_file(kept.steps[0], stem.with_suffix(".safetensors"))
    stem.with_suffix(".json").write_text(json.dumps(run.state.log_history))
