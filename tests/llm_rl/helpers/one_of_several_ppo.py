"""Started by torchrun: trains PPO once for each set of arguments and writes down this process's gradients and logs."""

import json
import sys
from pathlib import Path

from safetensors.torch import save_file

from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import KeepGradients, distinct_rows
from tests.llm_rl.helpers.tiny_ppo import trainer

folder = Path(sys.argv[1])
for index, changes in enumerate(json.loads(sys.argv[2])):
    kept = KeepGradients()
    given = {"engine": FixedEngine(), "callbacks": [kept]}
    run = trainer(folder / str(index), data=distinct_rows(), given=given, **changes)
    run.value_function.head.weight.data += 0.1
    run.train()
    stem = folder / f"{index}-rank{run.args.process_index}"
    save_file(kept.steps[1], stem.with_suffix(".safetensors"))
    stem.with_suffix(".json").write_text(json.dumps(run.state.log_history))
