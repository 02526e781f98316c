"""A RARO run in a process of its own, to be killed and resumed."""

import json
from pathlib import Path
from typing import Any

from llm_rl.raro import RAROTrainer
from llm_rl.raro.batches import TokenBudgetEngine
from llm_rl.rollout.generation import Completion
from tests.llm_rl.helpers.killable_grpo import KillAfter
from tests.llm_rl.helpers.tiny_grpo import untimed
from tests.llm_rl.helpers.tiny_raro import mixed_critic, mixed_policy, number, trainer
from tests.llm_rl.helpers.tiny_vapor import tag_tokenizer

SETTINGS: dict[str, Any] = {
    "max_steps": 6,
    "per_device_train_batch_size": 8,
    "num_iterations": 2,
    "critic_pairs": 3,
    "critic_generations": 2,
    "critic_warmup": 0.3,
    "replay_capacity": 9,
    "replay_mode": "reservoir",
    "kl_weight": 0.1,
    "lr_scheduler_type": "cosine",
    "logging_steps": 3,
    "save_strategy": "steps",
    "save_steps": 1,
    "save_total_limit": 2,
}


class DrawingEngine(TokenBudgetEngine):
    """Samples from the model, and writes what it drew as an answer or a label."""

    def generate(self, prompts: Any, params: Any) -> list[Completion]:
        names = tag_tokenizer()
        result = []
        for prompt, drawn in zip(prompts, super().generate(prompts, params), strict=True):
            draw = number(drawn.token_ids)
            asked = names.decode(prompt).strip()[2:].split("|")
            text = mixed_policy(asked[0], draw) if len(asked) == 1 else mixed_critic(asked[0], asked[1], asked[2], draw)
            ids = names(text.removesuffix("…"))["input_ids"][: params.max_new_tokens - 1]
            result.append(Completion(ids if text.endswith("…") else [*ids, params.eos_token_ids[0]], None))
        return result


def play(folder: Path, kill_after: int, **changes: Any) -> RAROTrainer:
    """Train, from the last checkpoint if there is one, and write down what came out."""
    given = {"callbacks": [KillAfter(kill_after)], "engine": DrawingEngine(2048)}
    run = trainer(folder, given=given, **{**SETTINGS, **changes})
    run.train(resume_from_checkpoint="last")
    replay = {"added": run.replay.state_dict()["added"], "pairs": [vars(pair) for pair in run.replay.pairs]}
    (folder / "log.json").write_text(json.dumps({"lines": untimed(run.state.log_history), "replay": replay}))
    run.save_model(str(folder / "final"))
    return run
