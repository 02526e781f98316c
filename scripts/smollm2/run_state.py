"""What a training run takes over when it is resumed, beside its checkpoint: time, points of the curve, judgements."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from llm_rl.training import write_text_whole


class StepClock(TrainerCallback, ExportableState):
    """Seconds spent in training steps, roll-outs included and evaluations not; stops training at a budget.

    They are CPU seconds of the process on a CPU, where other programs may take turns, and seconds of the clock on an
    accelerator. Checkpoints hold them: a run that is resumed goes on from those.

    Args:
        budget: Seconds that training may take; None: no end.
    """

    def __init__(self, budget: float | None = None) -> None:
        self.seconds, self.budget = 0.0, budget
        self._started = 0.0

    def state(self) -> dict[str, Any]:
        """The seconds, for a checkpoint."""
        return {"args": {}, "attributes": {"seconds": self.seconds}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start at 0, or go on from a checkpoint, which may have been the end."""
        saved = state.stateful_callbacks.get(type(self).__name__, self.state())
        self.seconds = saved["attributes"]["seconds"] if state.global_step else 0.0
        control.should_training_stop |= self._spent()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self._started = self._now(args)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop the clock, and training if the budget is spent."""
        self.seconds += self._now(args) - self._started
        if self._spent():
            control.should_training_stop = control.should_save = True

    @staticmethod
    def _now(args: Any) -> float:
        return time.process_time() if args.device.type == "cpu" else time.perf_counter()

    def _spent(self) -> bool:
        return self.budget is not None and self.seconds >= self.budget


class Judgements:
    """What held-out rows said of each model, kept in `judged.json`, so that a run that is resumed judges none twice.

    Args:
        path: The file.
        keep: Take over what it holds; otherwise it is removed.
    """

    def __init__(self, path: Path, keep: bool) -> None:
        self.path = path
        if not keep:
            path.unlink(missing_ok=True)
        self.results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def add(self, name: str, judge: Callable[[], dict[str, dict[str, float]]]) -> None:
        """Judge a model, unless that is done."""
        if name not in self.results:
            self.results[name] = judge()
            write_text_whole(self.path, json.dumps(self.results, indent=2))
