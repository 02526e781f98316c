"""DPO on the tiny model of `tiny_grpo`."""

from pathlib import Path
from typing import Any

from llm_rl.dpo.arguments import DPOArguments
from llm_rl.dpo.trainer import DPOTrainer
from tests.helpers import SHORT
from tests.llm_rl.helpers.tiny_grpo import WORDS, new_model, tokenizer


def pairs(count: int = 8) -> list[dict[str, Any]]:
    """Prompts and completions of different lengths, the same tokens together as apart."""
    return [
        {
            "prompt": " ".join(WORDS[: 1 + index % 3]),
            "chosen": " ".join(["", *WORDS[index : index + 1 + index % 2]]),
            "rejected": " ".join(["", *WORDS[-1 - index % 4 :]]),
        }
        for index in range(count)
    ]


def chats(count: int = 8) -> list[dict[str, Any]]:
    """`pairs` as messages."""
    return [
        {
            "prompt": [{"role": "user", "content": row["prompt"]}],
            **{name: [{"role": "assistant", "content": row[name]}] for name in ("chosen", "rejected")},
        }
        for row in pairs(count)
    ]


def arguments(folder: Path, **changes: Any) -> DPOArguments:
    chosen: dict[str, Any] = {"output_dir": str(folder), "max_steps": 1, "per_device_train_batch_size": 4, **SHORT}
    return DPOArguments(**{**chosen, **changes})


def trainer(
    folder: Path, model: Any = None, *, data: Any = None, given: dict[str, Any] | None = None, **changes: Any
) -> DPOTrainer:
    return DPOTrainer(
        new_model() if model is None else model,
        arguments(folder, **changes),
        pairs() if data is None else data,
        tokenizer(),
        **(given or {}),
    )
