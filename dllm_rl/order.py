"""Metrics of a recorded decode: what it got right, and whether its order follows logic."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from dllm_rl.decode import Decode
from dllm_rl.evaluate import rate_ci95
from dllm_rl.sudoku import PuzzleBatch


@dataclass(frozen=True, eq=False)
class DecodeMetrics:
    """How N decodes went; states count as live up to and with the one in which the first wrong cell was filled.

    Attributes:
        solved: bool `(N,)`, whether every cell is right.
        right_cells: int64 `(N,)`, blank cells filled correctly, before or after an error.
        blank_cells: int64 `(N,)`, blank cells of the puzzle.
        steps_before_error: int64 `(N,)`, steps before the one with the first wrong cell, or all of them.
        cells_before_error: int64 `(N,)`, cells filled in those steps.
        forward_passes: int64 `(N,)`, steps in all.
        greedy_tiers: int64 `(G,)`, the tier (index in `sudoku_env.order.TIERS`) of the position of the largest
            margin, for all live states where it lies in the map, puzzle by puzzle.
        greedy_cells: int64 `(N,)`, how many of those each puzzle has.
        chosen_tiers: int64 `(C,)`, the tier of every cell filled in a live state, judged before the step.
        live_cells: int64 `(N,)`, how many of those each puzzle has.
        cell_steps: float64 `(N, n²)`, the step that filled each cell, NaN at givens.
    """

    solved: NDArray[np.bool_]
    right_cells: NDArray[np.int64]
    blank_cells: NDArray[np.int64]
    steps_before_error: NDArray[np.int64]
    cells_before_error: NDArray[np.int64]
    forward_passes: NDArray[np.int64]
    greedy_tiers: NDArray[np.int64]
    greedy_cells: NDArray[np.int64]
    chosen_tiers: NDArray[np.int64]
    live_cells: NDArray[np.int64]
    cell_steps: NDArray[np.float64]

    @property
    def greedy_forced(self) -> NDArray[np.int64]:
        """int64 `(N,)`: of `greedy_cells`, how many are definite cells."""
        owner = np.repeat(np.arange(len(self.greedy_cells)), self.greedy_cells)
        return np.bincount(owner[self.greedy_tiers == 0], minlength=len(self.greedy_cells))

    def summary(self) -> dict[str, float]:
        """Means over puzzles; cells and tiers are shares of all cells or live states together."""
        return {
            "solved": float(self.solved.mean()),
            "solved_ci95": rate_ci95(self.solved),
            "cells": float(self.right_cells.sum() / self.blank_cells.sum()),
            "steps_before_error": float(self.steps_before_error.mean()),
            "cells_before_error": float(self.cells_before_error.mean()),
            "greedy_forced": PuzzleBatch.tier_shares(self.greedy_tiers)["singles"],
            "chosen_forced": PuzzleBatch.tier_shares(self.chosen_tiers)["singles"],
            "forward_passes": float(self.forward_passes.mean()),
        }


def judge(record: Decode) -> DecodeMetrics:
    """Compare decodes of puzzles with the solutions and with the ladder of rules.

    Raises:
        TypeError: The problems are no puzzles, so that there is no ladder.
    """
    puzzles = record.problems
    if not isinstance(puzzles, PuzzleBatch):
        raise TypeError(f"the ladder of rules is for puzzles, not for a {type(puzzles).__name__}")
    in_map = puzzles.judged[0]  # (R,), the same for puzzles of one layout
    step = record.step_of[:, in_map]  # (N, n²)
    blank = step >= 0
    right = record.responses[:, in_map] == puzzles.answers[:, in_map]
    passes = record.forward_passes
    error = torch.where(blank & ~right, step, passes[:, None]).amin(1)  # the step of the first error, or all steps

    def tiers(rows: torch.Tensor, at: torch.Tensor, cells: torch.Tensor) -> NDArray[np.int64]:
        """Tiers of cells in the states of these rows before these steps, all int64 `(D,)`."""
        states = torch.where(record.step_of[rows] < at[:, None], record.responses[rows], puzzles.mask_id)
        return puzzles.easiest_tiers(states, cells)

    live = blank & (step <= error[:, None])
    row, cell = live.nonzero(as_tuple=True)
    chosen = tiers(row, step[row, cell], cell)
    taken = torch.arange(record.greedy.shape[1], device=step.device)
    row, at = ((record.greedy >= 0) & (taken <= error[:, None])).nonzero(as_tuple=True)
    position = record.greedy[row, at]
    inside = in_map[position]
    greedy_cells = row[inside].bincount(minlength=len(step)).cpu().numpy()
    greedy = tiers(row[inside], at[inside], (in_map.long().cumsum(0) - 1)[position[inside]])
    return DecodeMetrics(
        solved=right.all(1).cpu().numpy(),
        right_cells=(right & blank).sum(1).cpu().numpy(),
        blank_cells=blank.sum(1).cpu().numpy(),
        steps_before_error=error.cpu().numpy(),
        cells_before_error=(blank & (step < error[:, None])).sum(1).cpu().numpy(),
        forward_passes=passes.cpu().numpy(),
        greedy_tiers=greedy,
        greedy_cells=greedy_cells,
        chosen_tiers=chosen,
        live_cells=live.sum(1).cpu().numpy(),
        cell_steps=torch.where(blank, step.double(), torch.nan).cpu().numpy(),
    )


def rank_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman's rank correlation of each pair of rows `(N, C)` → `(N,)`; ties share their mean rank.

    Columns that are NaN in either row are left out; a row in which one side does not vary is NaN.
    """
    absent = np.isnan(first) | np.isnan(second)
    one, two = (_centered_ranks(np.where(absent, np.nan, values)) for values in (first, second))
    spread = np.sqrt((one**2).sum(1) * (two**2).sum(1))
    return np.divide((one * two).sum(1), spread, out=np.full(len(one), np.nan), where=spread > 0)


def known_mean(values: NDArray[np.float64], axis: int | None = None) -> NDArray[np.float64]:
    """The mean of the entries that are not NaN, over an axis or over all, float64; NaN where there is none."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0.0).sum(axis) / known.sum(axis)


def mean_order(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """When each cell is filled, 0 first and 1 last, by rank among a puzzle's blanks, averaged over puzzles.

    Args:
        steps: float64 `(N, n²)`, NaN where a cell has no step.

    Returns:
        float64 `(n, n)`, NaN where a cell never has one.
    """
    ranks = rankdata(steps, axis=1, nan_policy="omit")
    last = (~np.isnan(steps)).sum(1, keepdims=True) - 1
    # Cells as rows: numpy then adds up pairwise, with less rounding.
    place = known_mean(np.ascontiguousarray(((ranks - 1) / np.maximum(last, 1)).T), axis=1)
    size = round(len(place) ** 0.5)
    return place.reshape(size, size)


def _centered_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks within each row minus their mean, 0 at NaN."""
    ranks = rankdata(values, axis=1, nan_policy="omit")
    return np.nan_to_num(ranks - known_mean(ranks, axis=1)[:, None])
