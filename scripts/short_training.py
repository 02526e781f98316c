"""What the arguments of trainers share in comparisons of a few minutes, whose length is a budget."""

from pathlib import Path
from typing import Any

from llm_rl.training import UNLIMITED_STEPS


def short_training(run: Path, batch_size: int, seed: int, learning_rate: float) -> dict[str, Any]:
    """Arguments of a training on CPU that writes nothing but its log, and ends by its budget.

    Args:
        run: The run folder.
        batch_size: `per_device_train_batch_size`.
        seed: Random seed.
        learning_rate: Rate.
    """
    return {
        "output_dir": str(run / "trainer"),
        "overwrite_output_dir": True,
        "max_steps": UNLIMITED_STEPS,
        "per_device_train_batch_size": batch_size,
        "learning_rate": learning_rate,
        "logging_steps": 10,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": seed,
    }
