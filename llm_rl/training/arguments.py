"""Arguments that every training run has, whatever it trains."""

from dataclasses import dataclass, field

from transformers import TrainingArguments


@dataclass
class RunArguments(TrainingArguments):
    """`transformers.TrainingArguments` and what a run's folder, its checkpoints and its processes need beside them."""

    overwrite_output_dir: bool = field(
        default=False, metadata={"help": "Start anew in a folder that holds a run; its checkpoints are deleted."}
    )
    resume_with_changes: bool = field(
        default=False,
        metadata={"help": "Resume although arguments or data that change the mathematics differ from the checkpoint's."},
    )
    expected_processes: int | None = field(
        default=None, metadata={"help": "Stop unless training runs in so many processes; None takes any number."}
    )
