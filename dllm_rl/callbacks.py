"""The held-out curve of a run, against training time."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from dllm_rl.evaluation import evaluate
from dllm_rl.task import UnmaskTask
from llm_rl.training.callbacks import write_json_lines


class HeldOutCurve(TrainerCallback, ExportableState):
    """Evaluates on held-out problems before, during and after training, on a clock that stops meanwhile.

    The first process alone evaluates. Checkpoints hold points and clock: a run that is resumed goes on from those.

    Args:
        path: JSON-lines file; a line is {"step", "seconds", "solved", "greedy_forced", "steps_before_error"}.
        problems: Held-out problems, decoded by largest margin.
        task: What kind of problems they are.
        every: Optimizer steps between two points; 0 is none but the clock.
    """

    def __init__(self, path: Path, problems: Sequence[Any], task: UnmaskTask, every: int) -> None:
        self.path, self.problems, self.task, self.every = path, problems, task, every
        self.seconds, self.points = 0.0, list[dict[str, Any]]()
        self._started = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: nn.Module, **kwargs: Any
    ) -> None:
        """Take the first point, or go on from a checkpoint, and start the clock."""
        name = type(self).__name__
        if state.global_step and name in state.stateful_callbacks:
            saved = state.stateful_callbacks[name]["attributes"]
            self.seconds, self.points = saved["seconds"], saved["points"]
            self._write(state)
        else:
            state.stateful_callbacks[name] = self.state()
            self._point(state, model)
        self._started = time.perf_counter()

    def state(self) -> dict[str, Any]:
        """Points and clock, for a checkpoint."""
        seconds = self.seconds + time.perf_counter() - self._started
        return {"args": {}, "attributes": {"seconds": seconds, "points": self.points}}

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: nn.Module, **kwargs: Any
    ) -> None:
        """Take a point at regular steps and at the end."""
        last = state.global_step == state.max_steps
        if last or (self.every and state.global_step % self.every == 0):
            self.seconds += time.perf_counter() - self._started
            self._point(state, model)
            self._started = time.perf_counter()

    def _point(self, state: TrainerState, model: nn.Module) -> None:
        if not self.every or not state.is_world_process_zero:
            return
        result = evaluate(model, self.problems, self.task, device=next(model.parameters()).device)
        self.points.append({"step": state.global_step, "seconds": round(self.seconds, 2), **result.summary()})
        self._write(state)

    def _write(self, state: TrainerState) -> None:
        if self.every and state.is_world_process_zero:
            write_json_lines(self.path, self.points)
