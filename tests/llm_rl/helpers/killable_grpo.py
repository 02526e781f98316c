"""A GRPO or VAPOR run in a process of its own, to be killed and resumed."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from llm_rl.rollout.generation import Completion, SamplingParams, TransformersEngine
from llm_rl.rollout.trainer import RolloutTrainer
from tests.llm_rl.helpers import tiny_vapor
from tests.llm_rl.helpers.tiny_grpo import new_model, small_ids, tokenizer, trainer, untimed

SETTINGS: dict[str, Any] = {
    "max_steps": 10,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "num_iterations": 4,
    "kl_weight": 0.1,
    "kl_in": "reward",
    "dynamic_sampling_attempts": 1,
    "lr_scheduler_type": "cosine",
    "logging_steps": 3,
    "save_strategy": "steps",
    "save_steps": 1,
    "save_total_limit": 2,
}
"""Eight prompts, two a roll-out of four steps: an epoch has sixteen steps, and log lines cross roll-outs."""
VAPOR_SETTINGS: dict[str, Any] = {
    **{name: value for name, value in SETTINGS.items() if name not in ("kl_weight", "kl_in")},
    "max_steps": 7,
    "kl_weight": 0.1,
    "pref_loss_weight": 0.2,
    "gradient_shares": True,
    "max_completion_length": 8,
    "verifiable_term_split": ["e", "o"],
}
"""Tags that random tokens hold now and then."""


class KillAfter(TrainerCallback):
    """Ends the process with SIGKILL when a number of steps is done and before its checkpoint."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
        if state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def play(folder: Path, kill_after: int = 0) -> None:
    """Train with GRPO, from the last checkpoint if there is one, and write down what came out."""
    model = new_model()
    model.lm_head.weight.data[tokenizer().eos_token_id] += 0.5
    given = {"callbacks": [KillAfter(kill_after)]}
    finish(folder, trainer(folder, model, reward_funcs=small_ids, given=given, **SETTINGS))


class TaggingEngine(TransformersEngine):
    """Samples, but the first completion of each call has both tags and the second none, whatever is sampled."""

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        found = super().generate(prompts, params)
        for place, text in enumerate(("e red o", "sky")):
            ids = tiny_vapor.tag_tokenizer()(text)["input_ids"]
            found[place] = Completion(ids, [-1.0] * len(ids))
        return found


def play_vapor(folder: Path, kill_after: int = 0) -> None:
    """Train with VAPOR as `play` does with GRPO."""
    given = {"callbacks": [KillAfter(kill_after)], "engine": TaggingEngine()}
    finish(folder, tiny_vapor.trainer(folder, reward_funcs=lengths, given=given, **VAPOR_SETTINGS))


def lengths(completions: list[str], **kwargs: Any) -> list[float]:
    return [len(text) / 10 for text in completions]


def finish(folder: Path, run: RolloutTrainer) -> None:
    run.train(resume_from_checkpoint="last")
    (folder / "log.json").write_text(json.dumps(untimed(run.state.log_history)))
    run.save_model(str(folder / "final"))
