"""Started by torchrun: trains once for each set of arguments and writes down what this process had.

That is its samples, its log and the gradient of its last step. "given" among the arguments names what the trainer gets
beside them, "extensions" its extensions with their options, "reward" the reward function, "prompt" is the only prompt.
"""

import json
import sys
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from llm_rl.grpo import extensions
from llm_rl.rollout.data import Sample
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import EXPERTS, KeepGradients, distinct_rows, go_on, small_ids, trainer, unless_cut

OFFERED: dict[str, Any] = {"next_turn": go_on, "engine": FixedEngine()}

REWARDS: dict[str, Any] = {"small_ids": small_ids, "unless_cut": unless_cut}

folder = Path(sys.argv[1])
for index, changes in enumerate(json.loads(sys.argv[2])):
    kept = KeepGradients()
    roll_outs: list[Any] = []
    given = {name: OFFERED[name] for name in changes.pop("given", ["engine"])}
    prompt = changes.pop("prompt", None)
    data = distinct_rows() if prompt is None else [{"prompt": prompt}] * 8
    reward = REWARDS[changes.pop("reward", "small_ids")]
    given["callbacks"] = [kept]
    given["extensions"] = [
        getattr(extensions, name)(**({"rows": EXPERTS} if name == "Chord" else {}), **options)
        for name, options in changes.pop("extensions", {}).items()
    ]
    run = trainer(folder / str(index), reward_funcs=reward, data=data, given=given, **changes)
    scoring = run._prepare_rollout

    def noting(samples: list[Sample], scoring: Any = scoring, roll_outs: Any = roll_outs) -> Any:
        roll_outs.append([(each.prompt_ids, each.completion_ids, each.engine_logprobs) for each in samples])
        return scoring(samples)

    run._prepare_rollout = noting  # type: ignore[method-assign]
    run.train()
    stem = folder / f"{index}-rank{run.args.process_index}"
    save_file(kept.steps[-1], stem.with_suffix(".safetensors"))
    stem.with_suffix(".json").write_text(json.dumps(run.state.log_history))
    stem.with_suffix(".samples.json").write_text(json.dumps(roll_outs))
