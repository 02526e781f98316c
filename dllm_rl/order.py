"""Metrics of a recorded decode: what it got right, and whether its order follows logic."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from dllm_rl.decode_loop import Decode
from dllm_rl.evaluate import rate_ci95
from sudoku_env.board import Board
from sudoku_env.explanation import explain
from sudoku_env.logic import RULE_GROUPS, definite_cells

TIERS = (*RULE_GROUPS, "beyond")
"""Groups of rules from easy to hard; "beyond" is a cell that none of them makes definite."""


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
        greedy_tiers: int64 `(G,)`, the tier (index in `TIERS`) of the position of the largest margin, for all live
            states where it lies in the map, puzzle by puzzle.
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
        """int64 `(N,)`: of `greedy_cells`, how many are forced cells."""
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
            "greedy_forced": tier_shares(self.greedy_tiers)["singles"],
            "chosen_forced": tier_shares(self.chosen_tiers)["singles"],
            "forward_passes": float(self.forward_passes.mean()),
        }


def judge(record: Decode) -> DecodeMetrics:
    """Compare decodes with the solutions and with the ladder of rules."""
    puzzles = record.puzzles
    in_map = puzzles.in_map
    step = record.step_of[:, in_map]  # (N, n²)
    blank = step >= 0
    right = record.responses[:, in_map] == puzzles.solution_ids[:, in_map]
    passes = record.forward_passes
    error = torch.where(blank & ~right, step, passes[:, None]).amin(1)  # the step of the first error, or all steps

    digits = puzzles.boards(record.responses)
    steps = step.cpu().numpy()

    def tiers(rows: torch.Tensor, at: torch.Tensor, cells: torch.Tensor) -> NDArray[np.int64]:
        """Tiers of cells in the states of these rows before these steps, all int64 `(D,)`."""
        row, before = rows.cpu().numpy(), at.cpu().numpy()[:, None]
        return easiest_tier(np.where(steps[row] < before, digits[row], 0).astype(np.uint8), cells.cpu().numpy())

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
        cell_steps=np.where(steps >= 0, steps.astype(float), np.nan),
    )


def easiest_tier(boards: Board, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The easiest group of rules under which a cell is definite (`sudoku_env.definite_cells`).

    Args:
        boards: uint8 `(D, n²)`.
        cells: int64 `(D,)`, one blank cell of each.

    Returns:
        int64 `(D,)`, indices in `TIERS`.
    """
    tier = np.full(len(cells), len(RULE_GROUPS))
    rest = np.arange(len(cells))
    for index, rule in enumerate(RULE_GROUPS):
        if not len(rest):
            break
        definite = definite_cells(boards[rest], rule)[np.arange(len(rest)), cells[rest]] > 0
        tier[rest[definite]] = index
        rest = rest[~definite]
    return tier


def tier_shares(tiers: NDArray[np.int64]) -> dict[str, float]:
    """Share of each of `TIERS`; NaN without any cell."""
    if not len(tiers):
        return dict.fromkeys(TIERS, float("nan"))
    counts = np.bincount(tiers, minlength=len(TIERS))
    return {name: float(count / len(tiers)) for name, count in zip(TIERS, counts, strict=True)}


def random_order_tiers(
    boards: Board,
    solutions: Board,
    *,
    cell_steps: NDArray[np.float64] | None = None,
    live_cells: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> NDArray[np.int64]:
    """The floor of `chosen_tiers`: blanks are filled correctly in uniformly random order.

    With one cell a step and all cells, the share of "singles" is `sudoku_env.random_order_floor` of the same seed.

    Args:
        boards: uint8 `(N, n²)`.
        solutions: uint8 `(N, n²)`.
        cell_steps: float64 `(N, n²)`, steps that fill the blank cells (`DecodeMetrics.cell_steps`): as many cells are
            filled at once, in the same succession. None: one at a time.
        live_cells: int64 `(N,)`, look at the first so many cells of each puzzle. Early cells are harder than late ones,
            so decodes that end early need a floor that ends as early (`DecodeMetrics.live_cells`). None: at all.
        seed: Of the orders.

    Returns:
        int64 `(F,)`, the tier (index in `TIERS`) of every cell, judged before the step that fills it.
    """
    priority = np.random.default_rng(seed).random(boards.shape)
    rank = np.where(boards == 0, -priority, np.inf).argsort(1).argsort(1)
    sizes = rank if cell_steps is None else np.take_along_axis(np.sort(cell_steps, axis=1), rank, axis=1)
    step = np.where(boards == 0, sizes, -1)
    wanted = boards == 0
    if live_cells is not None:
        wanted &= rank < live_cells[:, None]
    rows, cells = np.nonzero(wanted)
    before = np.where(step[rows] < step[rows, cells][:, None], solutions[rows], 0).astype(np.uint8)
    return easiest_tier(before, cells)


def ladder_steps(boards: Board) -> NDArray[np.float64]:
    """The step of `sudoku_env.explain` that fills each cell, eliminations counted, up to rule "backbone".

    Args:
        boards: uint8 `(N, n²)`.

    Returns:
        float64 `(N, n²)`, NaN at givens and where no step fills the cell (the board has several solutions).
    """
    steps = np.full(boards.shape, np.nan)
    for row, board in enumerate(boards):
        for index, step in enumerate(explain(board, "backbone")):
            if step.cell is not None:
                steps[row, step.cell] = index
    return steps


def ladder_rounds(boards: Board) -> NDArray[np.float64]:
    """The round that fills each cell, if a round fills all cells definite by the easiest group of rules that has any.

    Unlike the steps of `explain`, which come one after the other, cells that logic gives at once share a round.

    Args:
        boards: uint8 `(N, n²)`.

    Returns:
        float64 `(N, n²)`, NaN at givens and where no round fills the cell (the board has several solutions).
    """
    current = boards.copy()
    rounds = np.full(boards.shape, np.nan)
    rest = np.flatnonzero((current == 0).any(1))
    number = 0
    while len(rest):
        filled = np.zeros_like(current)
        waiting = rest
        for rule in (*RULE_GROUPS, "backbone"):
            filled[waiting] = definite_cells(current[waiting], rule)
            waiting = waiting[~(filled[waiting] > 0).any(1)]
            if not len(waiting):
                break
        rounds[filled > 0] = number
        current += filled
        number += 1
        rest = np.flatnonzero((current == 0).any(1) & (filled > 0).any(1))
    return rounds


def rank_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman's rank correlation of each pair of rows `(N, C)` → `(N,)`; ties share their mean rank.

    Columns that are NaN in either row are left out; a row in which one side does not vary is NaN.
    """
    absent = np.isnan(first) | np.isnan(second)
    one, two = (_centered_ranks(np.where(absent, np.nan, values)) for values in (first, second))
    spread = np.sqrt((one**2).sum(1) * (two**2).sum(1))
    return np.divide((one * two).sum(1), spread, out=np.full(len(one), np.nan), where=spread > 0)


def mean_order(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """When each cell is filled, 0 first and 1 last, by rank among a puzzle's blanks, averaged over puzzles.

    Args:
        steps: float64 `(N, n²)`, NaN where a cell has no step.

    Returns:
        float64 `(n, n)`, NaN where a cell never has one.
    """
    ranks = pd.DataFrame(steps).rank(axis=1).to_numpy()
    last = (~np.isnan(steps)).sum(1, keepdims=True) - 1
    place = pd.DataFrame((ranks - 1) / np.maximum(last, 1)).mean().to_numpy()
    size = round(len(place) ** 0.5)
    return place.reshape(size, size)


def _centered_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks within each row minus their mean, 0 at NaN."""
    ranks = pd.DataFrame(values).rank(axis=1)
    return ranks.sub(ranks.mean(axis=1), axis=0).fillna(0.0).to_numpy()
