"""What trainers of both families log, as JSON lines, written and read back."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback, TrainerState

from llm_rl.training.reports import load_pandas
from llm_rl.training.storage import write_text_whole

if TYPE_CHECKING:
    import pandas as pd


def append_json_line(path: Path, record: dict[str, Any]) -> None:
    """Append one record to a JSON-lines file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def write_json_lines(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """Write a JSON-lines file, whole or not at all."""
    write_text_whole(path, "".join(json.dumps(record) + "\n" for record in records))


def read_json_lines(path: str | Path) -> "pd.DataFrame":
    """A JSON-lines file as a frame, one row a line.

    Raises:
        ModuleNotFoundError: pandas is not installed.
    """
    return load_pandas().DataFrame([json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()])


class MetricsWriter(TrainerCallback):
    """Appends what the trainer logs to a JSON-lines file, in the first process.

    The file starts with what the trainer's state knows: empty, or after resuming with the lines up to the checkpoint.
    What a run that was killed logged after its last checkpoint is thus not in it twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Start the file."""
        if state.is_world_process_zero:
            write_json_lines(self.path, [{"step": line["step"], **line} for line in state.log_history])

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Write one line."""
        if state.is_world_process_zero:
            append_json_line(self.path, {"step": state.global_step, **(logs or {})})
