"""Evaluation: what a model solves when it decodes held-out problems, and whether its order follows logic."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import nn

from dllm_rl.decoding.inference import Decode, decode
from dllm_rl.decoding.settings import Decoding
from dllm_rl.task import UnmaskTask

GREEDY = Decoding("margin", on_error="end")
"""Margin decoding, one position a step, to the first error."""

LEVEL = 0.95
"""Of intervals."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How Q decodes went; states count as live up to and with the one in which the first error was made.

    Attributes:
        solved: bool `(Q,)`, whether every judged position is right.
        right: int64 `(Q,)`, judged positions filled rightly.
        blanks: int64 `(Q,)`, judged positions that were open at the start.
        steps_before_error: int64 `(Q,)`, steps before the one with the first error, or all of them.
        cells_before_error: int64 `(Q,)`, judged positions filled in those steps.
        forward_passes: int64 `(Q,)`, steps in all.
        greedy_definite_count: int64 `(Q,)`, live states whose greedy position (largest margin) is definite (S1).
        greedy_judged: int64 `(Q,)`, live states whose greedy position is judged, i.e. lies in the map.
        chosen_definite_count: int64 `(Q,)`, judged positions filled in live states that were definite before the step.
        chosen_judged: int64 `(Q,)`, judged positions filled in live states.
        checks: int64 `(Q,)`, how often a guard was asked.
        rejected: int64 `(Q,)`, how often it left a position masked that a step had chosen.
        dead_end: bool `(Q,)`, whether the decode ended incomplete, as the guard refused every token.
    """

    solved: NDArray[np.bool_]
    right: NDArray[np.int64]
    blanks: NDArray[np.int64]
    steps_before_error: NDArray[np.int64]
    cells_before_error: NDArray[np.int64]
    forward_passes: NDArray[np.int64]
    greedy_definite_count: NDArray[np.int64]
    greedy_judged: NDArray[np.int64]
    chosen_definite_count: NDArray[np.int64]
    chosen_judged: NDArray[np.int64]
    checks: NDArray[np.int64]
    rejected: NDArray[np.int64]
    dead_end: NDArray[np.bool_]

    @classmethod
    def of(cls, record: Decode) -> "Evaluation":
        """How the decodes of a record went."""
        error, chosen, greedy = record.error_step, record.live_choices, record.live_greedy
        # Without the error's own step: what it wrote elsewhere was chosen together with the error.
        before = record.judged & (record.step_of >= 0) & (record.step_of < error[:, None])
        columns = (
            (record.right == record.judged).all(1),
            record.right.sum(1),
            record.judged.sum(1),
            error,
            before.sum(1),
            record.forward_passes,
            (greedy & record.greedy_definite).sum(1),
            greedy.sum(1),
            (chosen & record.definite).sum(1),
            chosen.sum(1),
            record.checks.sum(1),
            record.rejected.sum(1),
            record.dead_end,
        )
        together = torch.stack([column.long() for column in columns]).cpu()  # one transfer
        return cls(*(read.to(column.dtype).numpy() for read, column in zip(together, columns, strict=True)))

    @classmethod
    def joined(cls, parts: Sequence["Evaluation"]) -> "Evaluation":
        """The evaluation of the problems of several parts, one behind the other."""
        names = [item.name for item in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @property
    def greedy_definite(self) -> float:
        """Share of greedy positions inside the map that are definite, over all live states; NaN without any."""
        return _share(self.greedy_definite_count, self.greedy_judged)

    @property
    def chosen_definite(self) -> float:
        """Share of the judged positions filled in live states that were definite; NaN without any."""
        return _share(self.chosen_definite_count, self.chosen_judged)

    def summary(self) -> dict[str, float]:
        """Means over problems, with the half-width of the 95 % interval of the solve rate over problems.

        Shares are of all positions and states together. "cells" is the share of the blanks that were filled rightly
        before decoding ended, which counts what is behind an error only where decoding goes on.
        """
        return {
            "solved": float(self.solved.mean()),
            "solved_ci95": _mean_and_half_width(self.solved)[1],
            "cells": _share(self.right, self.blanks),
            "steps_before_error": float(self.steps_before_error.mean()),
            "cells_before_error": float(self.cells_before_error.mean()),
            "greedy_definite": self.greedy_definite,
            "chosen_definite": self.chosen_definite,
            "forward_passes": float(self.forward_passes.mean()),
            "checks": float(self.checks.mean()),
            "rejected": float(self.rejected.mean()),
            "dead_ends": float(self.dead_end.mean()),
        }


def evaluate(
    model: nn.Module,
    problems: Sequence[Any],
    task: UnmaskTask,
    how: Decoding = GREEDY,
    *,
    seed: int = 0,
    batch_size: int = 512,
    max_masked: int | None = None,
) -> Evaluation:
    """Decode each problem once and see how that went.

    Args:
        model: A model as `dllm_rl.policy.score_states` takes it; problems go where it is.
        problems: The Q problems to decode.
        task: What kind of problems they are.
        how: How to decode. `on_error="end"`, as in the default, ends a decode after its first error, which saves time
            and changes the cells and forward passes that are counted; a `Decoding` goes on unless told otherwise.
        seed: Random seed of strategies that draw, and of restarts, made on the CPU so that devices agree.
        batch_size: Problems decoded together.
        max_masked: As in `decode`.

    Raises:
        ValueError: There is no problem, or `decode` refuses the problems or how to decode them.
    """
    if not problems:
        raise ValueError("cannot evaluate on no problems")
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for first in range(0, len(problems), batch_size):
        batch = task.batch(problems[first : first + batch_size])
        parts.append(Evaluation.of(decode(model, batch, how, generator=generator, max_masked=max_masked)))
    return Evaluation.joined(parts)


def paired_difference(first: Evaluation, second: Evaluation) -> tuple[float, float]:
    """Difference of solve rates, first - second, and the half-width of its 95 % interval, paired over problems.

    The interval covers the choice of problems, not the training seed.

    Raises:
        ValueError: The evaluations cover different numbers of problems.
    """
    if len(first.solved) != len(second.solved):
        raise ValueError(f"evaluations of {len(first.solved)} and {len(second.solved)} problems cannot be paired")
    return _mean_and_half_width(first.solved.astype(float) - second.solved.astype(float))


def _mean_and_half_width(values: NDArray[Any]) -> tuple[float, float]:
    """The mean of outcomes `(Q,)` and the half-width of its 95 % interval (`half_width`); NaN with one problem."""
    return float(values.mean()), half_width(values) if len(values) > 1 else float("nan")


def half_width(values: NDArray[Any]) -> float:
    """Half the width of the normal 95 % interval of the mean of independent outcomes `(Q,)`, of two or more."""
    return float(stats.norm.ppf(0.5 + LEVEL / 2) * stats.sem(values))


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> float:
    return float(part.sum() / whole.sum()) if whole.sum() else float("nan")
