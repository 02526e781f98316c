"""The order of recorded decodes of puzzles, against the ladder of rules."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from dllm_rl.decoding import Decode, Evaluation
from dllm_rl.sudoku.task import PuzzleBatch


@dataclass(frozen=True, eq=False)
class LadderOrder:
    """Which rules the cells of Q decodes needed when their turn came, puzzle by puzzle.

    A tier is an index in `sudoku_env.order.TIERS`: the easiest group of rules under which a cell is definite.

    Attributes:
        greedy_tiers: int64 `(S,)`, the tier of the greedy position in each live state where it lies in the map.
        chosen_tiers: int64 `(B,)`, the tier of each cell filled in a live state, before the step.
        cell_steps: float64 `(Q, n²)`, the step that filled each cell, NaN at givens and at cells left open.
    """

    greedy_tiers: NDArray[np.int64]
    chosen_tiers: NDArray[np.int64]
    cell_steps: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Assessment:
    """How Q decodes of puzzles went, and how far their order follows logic: what every table of decodes is made from.

    Attributes:
        evaluation: What they solved, at what cost.
        order: Which rules their cells needed.
        floor_tiers: int64 `(B,)`, the tier of each cell if as many are filled at each step in random order.
        rank_correlations: float64 `(Q,)`, of the steps with the rounds of the rule ladder; NaN where there is none.
    """

    evaluation: Evaluation
    order: LadderOrder
    floor_tiers: NDArray[np.int64]
    rank_correlations: NDArray[np.float64]

    def summary(self) -> dict[str, float]:
        """`Evaluation.summary`, "random_floor" (`chosen_definite` of the random order) and "rank_correlation"."""
        return {
            **self.evaluation.summary(),
            "random_floor": PuzzleBatch.tier_shares(self.floor_tiers)["singles"],
            "rank_correlation": float(known_mean(self.rank_correlations)),
        }


def assess(record: Decode, *, seed: int) -> Assessment:
    """Look at decodes of puzzles in every way that tables have.

    Args:
        record: The decodes.
        seed: Random seed of the floor's order.

    Raises:
        TypeError: The problems are no puzzles, so that there is no ladder.
    """
    evaluation, order, puzzles = Evaluation.of(record), ladder_order(record), _puzzles(record)
    floor = puzzles.random_order_tiers(order.cell_steps, evaluation.chosen_judged, seed=seed)
    return Assessment(evaluation, order, floor, rank_correlation(order.cell_steps, puzzles.ladder_rounds()))


def ladder_order(record: Decode) -> LadderOrder:
    """Judge the order of decodes of puzzles by the ladder of rules."""
    puzzles = _puzzles(record)
    cells = torch.tensor(puzzles.layout.cell_positions, device=record.step_of.device)
    cell_of = torch.zeros_like(record.step_of[0]).index_put((cells,), torch.arange(len(cells), device=cells.device))

    def tiers(rows: torch.Tensor, at: torch.Tensor, positions: torch.Tensor) -> NDArray[np.int64]:
        """Tiers of positions in the states of these rows before these steps, all int64 `(B,)`."""
        states = torch.where(record.step_of[rows] < at[:, None], record.responses[rows], puzzles.mask_id)  # (B, R)
        return puzzles.easiest_tiers(states, cell_of[positions])

    row, position = record.live_choices.nonzero(as_tuple=True)
    chosen = tiers(row, record.step_of[row, position], position)
    row, at = record.live_greedy.nonzero(as_tuple=True)
    greedy = tiers(row, at, record.greedy[row, at])
    step = record.step_of[:, cells]
    return LadderOrder(greedy, chosen, torch.where(step >= 0, step.double(), torch.nan).cpu().numpy())


def rank_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman's rank correlation of each pair of rows `(Q, C)` → `(Q,)`; ties share their mean rank.

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
        steps: float64 `(Q, n²)`, NaN where a cell has no step.

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


def _puzzles(record: Decode) -> PuzzleBatch:
    if not isinstance(record.problems, PuzzleBatch):
        raise TypeError(f"the ladder of rules is for puzzles, not for a {type(record.problems).__name__}")
    return record.problems
