"""A GRPO run in a process of its own, to be killed and resumed."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from tiny_grpo import TIMES, new_model, small_ids, tokenizer, trainer
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from llm_rl.grpo import GRPOTrainer

SETTINGS: dict[str, Any] = {
    "max_steps": 10,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "num_iterations": 2,
    "mini_batches": 2,
    "beta": 0.1,
    "kl_in": "reward",
    "top_entropy_quantile": 0.8,
    "dynamic_sampling_attempts": 1,
    "lr_scheduler_type": "cosine",
    "logging_steps": 3,
    "save_strategy": "steps",
    "save_steps": 1,
    "save_total_limit": 2,
}
"""Eight prompts, four a roll-out of four steps: an epoch has eight steps, and log lines cross roll-outs."""


class KillAfter(TrainerCallback):
    """Ends the process with SIGKILL when a number of steps is done and before its checkpoint."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
        if state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def play(folder: Path, kill_after: int = 0) -> GRPOTrainer:
    """Train, from the last checkpoint if there is one, and write down what came out."""
    model = new_model()
    model.lm_head.weight.data[tokenizer().eos_token_id] += 0.5
    run = trainer(folder, model, reward_funcs=small_ids, given={"callbacks": [KillAfter(kill_after)]}, **SETTINGS)
    run.train(resume_from_checkpoint=get_last_checkpoint(folder) is not None)
    lines = [{name: value for name, value in line.items() if name not in TIMES} for line in run.state.log_history]
    (folder / "log.json").write_text(json.dumps(lines))
    run.save_model(str(folder / "final"))
    return run
