"""A PPO run in a process of its own, to be killed and resumed."""

from pathlib import Path
from typing import Any

from peft import LoraConfig, get_peft_model

from tests.llm_rl.helpers.killable_grpo import KillAfter, finish
from tests.llm_rl.helpers.tiny_grpo import new_model, small_ids, tokenizer
from tests.llm_rl.helpers.tiny_ppo import trainer

SETTINGS: dict[str, Any] = {
    "max_steps": 7,
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "num_ppo_epochs": 4,
    "kl_weight": 0.1,
    "lr_scheduler_type": "cosine",
    "logging_steps": 3,
    "save_strategy": "steps",
    "save_steps": 1,
    "save_total_limit": 2,
}
"""Four prompts a roll-out of four steps; log lines cross roll-outs."""


def play(folder: Path, kill_after: int = 0, adapters: bool = False) -> None:
    """Train with PPO, from the last checkpoint if there is one, and write down what came out."""
    model: Any = new_model()
    model.lm_head.weight.data[tokenizer().eos_token_id] += 0.5
    changes: dict[str, Any] = {"value_function": "model"}
    if adapters:
        model, changes = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"])), {}
    given = {"callbacks": [KillAfter(kill_after)]}
    finish(folder, trainer(folder, model, reward_funcs=small_ids, given=given, **SETTINGS, **changes))
