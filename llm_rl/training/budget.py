"""Training to a budget of CPU seconds, puzzles or updates, with a learning rate that follows the share spent.

Two trainings are compared fairly if both may spend as much and both end with their learning rate annealed. On a shared
machine wall time is noise, so time is CPU time of the process; set the number of torch threads to one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import Trainer, TrainerCallback, TrainerState
from transformers.trainer_callback import ExportableState

UNLIMITED_STEPS = 10**9
"""`max_steps` for training arguments where the budget, not a number of steps, ends training."""


@dataclass(frozen=True)
class Budget:
    """What a training may spend.

    Attributes:
        by: "cpu_seconds" of the process while it trains, "seconds" of the clock on the wall, for an accelerator,
            "puzzles" seen, repetitions included, or optimizer "steps".
        amount: How much of it.

    Raises:
        ValueError: The unit is unknown or the amount is not positive.
    """

    by: Literal["cpu_seconds", "seconds", "puzzles", "steps"]
    amount: float

    def __post_init__(self) -> None:
        if self.by not in ("cpu_seconds", "seconds", "puzzles", "steps") or not self.amount > 0:
            raise ValueError(f"a budget is a positive amount of cpu_seconds, seconds, puzzles or steps, not {self}")


def trapezoid(warmup_share: float, decay_share: float) -> Callable[[float], float]:
    """Factor of the learning rate by the share spent: a linear rise from 0, a plateau at 1, a linear fall to 0.

    Args:
        warmup_share: Length of the rise.
        decay_share: Length of the fall.

    Raises:
        ValueError: A share is negative, or the two exceed 1 together.
    """
    if min(warmup_share, decay_share) < 0 or warmup_share + decay_share > 1:
        raise ValueError(f"warmup_share={warmup_share} and decay_share={decay_share} must be >= 0 and at most 1 in sum")

    def factor(share: float) -> float:
        rise = share / warmup_share if warmup_share else 1.0
        fall = (1.0 - share) / decay_share if decay_share else 1.0
        return max(0.0, min(1.0, rise, fall))

    return factor


def rows_after(trainer: Trainer) -> Callable[[int], int]:
    """How many rows a trainer has drawn in all processes after so many optimizer steps, repetitions included.

    A trainer that rolls out draws a full batch for each roll-out, which may serve several steps. Any other goes through
    its rows in epochs, and the last step of an epoch has those that are left.
    """
    args, rows = trainer.args, len(trainer.train_dataset)
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    if (repeats := getattr(args, "steps_per_rollout", None)) is not None:
        return lambda step: -(-step // repeats) * batch
    steps_per_epoch = -(-rows // batch)
    return lambda step: step // steps_per_epoch * rows + step % steps_per_epoch * batch


def clocks() -> tuple[float, float]:
    """CPU time of the process and time on the wall, in seconds."""
    return time.process_time(), time.perf_counter()


class BudgetCallback(TrainerCallback, ExportableState):
    """Stops training when a budget is spent; on the way it may validate.

    `state.max_steps` is set to the number of steps that the budget will allow at the present pace, so that schedules
    over steps follow the budget too. Checkpoints hold what was spent: a run that is resumed spends the rest.

    Args:
        budget: What may be spent.
        puzzles_after: Maps a number of optimizer steps to the number of puzzles seen by then.
        validate: Score of a model, the higher the better, e.g. its solve rate on validation puzzles. The training clock
            stands still meanwhile. None: no validation.
        validate_share: Share of the budget between two validations; there is one at the end in any case.

    Attributes:
        validations: (share spent, score) of each validation.

    Raises:
        ValueError: The share between validations is not positive.
    """

    def __init__(
        self,
        budget: Budget,
        puzzles_after: Callable[[int], int],
        *,
        validate: Callable[[nn.Module], float] | None = None,
        validate_share: float = 0.1,
    ) -> None:
        if not validate_share > 0:
            raise ValueError(f"validate_share={validate_share} must be positive, e.g. 0.1 for ten validations")
        self.budget, self.puzzles_after = budget, puzzles_after
        self.validate, self.validate_share = validate, validate_share
        self.validations: list[tuple[float, float]] = []
        self._spent = [0.0, 0.0]  # by the two clocks
        self._started: tuple[float, float] | None = None

    @property
    def cpu_seconds(self) -> float:
        """CPU time of training so far, validations left out."""
        return self._so_far[0]

    @property
    def seconds(self) -> float:
        """Time on the wall of training so far, validations left out."""
        return self._so_far[1]

    @property
    def _so_far(self) -> list[float]:
        if self._started is None:
            return self._spent
        return [spent + (now - then) for spent, now, then in zip(self._spent, clocks(), self._started, strict=True)]

    def share(self, step: int) -> float:
        """The share of the budget spent after so many optimizer steps, i.e. now; more than 1 if overdrawn."""
        cpu_seconds, seconds = self._so_far
        spent = {"cpu_seconds": cpu_seconds, "seconds": seconds, "puzzles": self.puzzles_after(step), "steps": step}
        return spent[self.budget.by] / self.budget.amount

    def state(self) -> dict[str, Any]:
        """What was spent and the validations, for a checkpoint."""
        return {"args": {}, "attributes": {"spent": self._so_far, "validations": self.validations}}

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Start the clock, or go on from a checkpoint."""
        saved = state.stateful_callbacks.get(type(self).__name__)
        if state.global_step and saved is not None:
            self._spent = saved["attributes"]["spent"]
            self.validations = [(share, score) for share, score in saved["attributes"]["validations"]]
            self._project(state)
        state.stateful_callbacks[type(self).__name__] = self.state()
        self._started = clocks()

    def on_step_end(self, args: Any, state: TrainerState, control: Any, model: nn.Module, **kwargs: Any) -> None:
        """Stop if the budget is spent; validate if it is time."""
        share = self.share(state.global_step)
        self._project(state)
        due = share // self.validate_share > (self.validations[-1][0] if self.validations else 0) // self.validate_share
        if self.validate is not None and (due or share >= 1):
            self._pause()
            self.validations.append((share, self.validate(model)))
            self._started = clocks()
        if share >= 1:
            self._pause()
            state.max_steps = state.global_step
        # The trainer itself stops at max_steps, but that was a projection.
        control.should_training_stop = share >= 1

    def _project(self, state: TrainerState) -> None:
        state.max_steps = max(state.global_step + 1, round(state.global_step / self.share(state.global_step)))

    def _pause(self) -> None:
        self._spent, self._started = self._so_far, None


def train_to_budget(
    trainer: Trainer,
    callback: BudgetCallback,
    schedule: Callable[[float], float],
    *,
    resume_from_checkpoint: str | None = None,
) -> None:
    """Train until the budget is spent.

    Args:
        trainer: A trainer with `max_steps=UNLIMITED_STEPS`, not trained yet.
        callback: The budget.
        schedule: Factor of the learning rate by the share spent, e.g. `trapezoid(0.05, 0.4)`.
        resume_from_checkpoint: As the trainer takes it.
    """
    optimizer = trainer.create_optimizer()
    trainer.lr_scheduler = LambdaLR(optimizer, lambda step: schedule(callback.share(step)))
    trainer.add_callback(callback)
    trainer.train(resume_from_checkpoint=resume_from_checkpoint)
