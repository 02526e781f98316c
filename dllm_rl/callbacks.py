"""Trainer callbacks: metrics as JSON lines, a held-out curve against training time, a quiet progress bar."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn
from transformers import ProgressCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from dllm_rl.evaluate import evaluate
from sudoku_env.tokens import PreFilled


def append_json_line(path: Path, record: dict[str, Any]) -> None:
    """Append one record to a JSON-lines file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


class MetricsWriter(TrainerCallback):
    """Appends what the trainer logs to a JSON-lines file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Write one line."""
        append_json_line(self.path, {"step": state.global_step, **(logs or {})})


class HeldOutCurve(TrainerCallback):
    """Evaluates on held-out puzzles before, during and after training, on a clock that stops meanwhile.

    Args:
        path: JSON-lines file; a line is {"step", "seconds", "solved", "greedy_forced", "steps_before_error"}.
        puzzles: Held-out puzzles, decoded by largest margin.
        pad_id: Padding token.
        every: Optimizer steps between two points; 0 is none but the clock.
    """

    def __init__(self, path: Path, puzzles: Sequence[PreFilled], pad_id: int, every: int) -> None:
        self.path, self.puzzles, self.pad_id, self.every = path, puzzles, pad_id, every
        self.seconds = 0.0
        self._started = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: nn.Module, **kwargs: Any
    ) -> None:
        """Take the first point and start the clock."""
        self._point(state.global_step, model)
        self._started = time.perf_counter()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: nn.Module, **kwargs: Any
    ) -> None:
        """Take a point at regular steps and at the end."""
        last = state.global_step == state.max_steps
        if last or (self.every and state.global_step % self.every == 0):
            self.seconds += time.perf_counter() - self._started
            self._point(state.global_step, model)
            self._started = time.perf_counter()

    def _point(self, step: int, model: nn.Module) -> None:
        if not self.every:
            return
        result = evaluate(model, self.puzzles, pad_id=self.pad_id, device=next(model.parameters()).device)
        append_json_line(self.path, {"step": step, "seconds": round(self.seconds, 2), **result.summary()})


class QuietProgress(ProgressCallback):
    """The trainer's progress bar with a few metrics behind it instead of a printed line for each log.

    Args:
        shown: Names of the metrics to show.
    """

    def __init__(self, shown: Sequence[str]) -> None:
        super().__init__()
        self.shown = shown

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Refresh the figures behind the bar."""
        if self.training_bar is not None and logs:
            self.training_bar.set_postfix({name: f"{logs[name]:.3g}" for name in self.shown if name in logs})
