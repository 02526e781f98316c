"""What tests share; trainings of theirs are told `SHORT`, unless a test says otherwise."""

from typing import Any

SHORT: dict[str, Any] = {
    "learning_rate": 1e-3, "lr_scheduler_type": "constant", "logging_steps": 1, "save_strategy": "no",
    "report_to": "none", "disable_tqdm": True, "use_cpu": True, "seed": 7,
}  # fmt: skip
