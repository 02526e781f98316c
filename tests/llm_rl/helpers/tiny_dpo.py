"""DPO on the tiny model of `tiny_grpo`."""

from collections.abc import Mapping, Sequence
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


def chats(rows: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Pairs as messages."""
    roles = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}
    return [{name: [{"role": role, "content": row[name]}] for name, role in roles.items()} for row in rows]


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
