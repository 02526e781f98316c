"""The order in which cells are filled, by the rules of logic that it needs, and what a random order scores."""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board
from sudoku_env.errors import SudokuError
from sudoku_env.explanation import explain
from sudoku_env.logic import RULE_GROUPS, definite_cells, definite_digits

TIERS = (*RULE_GROUPS, "beyond")
"""Groups of rules from easy to hard; "beyond" is a cell that none of them makes definite."""


def random_order_floor(boards: Board, solutions: Board, *, seed: int) -> float:
    """Share of decisions that fall on a definite cell when blanks are filled correctly in uniformly random order.

    The floor of `greedy_definite`: an order that knows no logic scores this much.

    Args:
        boards: uint8 `(N, n²)`, puzzles with at least one blank in all.
        solutions: uint8 `(N, n²)`.
        seed: Random seed of the orders.

    Raises:
        SudokuError: There is no blank cell, or shapes differ.
    """
    if boards.shape != solutions.shape or boards.ndim != 2 or not (boards == 0).any():
        raise SudokuError(f"need boards with blanks and their solutions, got shapes {boards.shape}, {solutions.shape}")
    before, cells = _random_order(boards, solutions, np.random.default_rng(seed))
    return float((definite_digits(before)[np.arange(len(cells)), cells] > 0).mean())


def easiest_tier(boards: Board, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The easiest group of rules by which one blank cell, int64 `(D,)`, of boards, uint8 `(D, n²)`, is definite.

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
    """The tiers of cells when blanks are filled correctly in uniformly random order, the floor of a decode's.

    With one cell a step and all cells, the share of "singles" is `random_order_floor` of the same seed.

    Args:
        boards: uint8 `(N, n²)`.
        solutions: uint8 `(N, n²)`.
        cell_steps: float64 `(N, n²)`, steps that fill the blank cells of a decode: as many cells are filled at once, in
            the same succession. None: one at a time.
        live_cells: int64 `(N,)`, look at the first so many cells of each puzzle. Early cells are harder than late ones,
            so decodes that end early need a floor that ends as early. None: at all of them.
        seed: Random seed of the orders.

    Returns:
        int64 `(F,)`, the tier (index in `TIERS`) of every cell, judged before the step that fills it.
    """
    return easiest_tier(*_random_order(boards, solutions, np.random.default_rng(seed), cell_steps, live_cells))


def _random_order(
    boards: Board,
    solutions: Board,
    generator: np.random.Generator,
    cell_steps: NDArray[np.float64] | None = None,
    live_cells: NDArray[np.int64] | None = None,
) -> tuple[Board, NDArray[np.int64]]:
    """Every decision of a random order: the board before it, `(F, n²)`, and its cell, `(F,)`."""
    priority = generator.random(boards.shape)
    rank = np.where(boards == 0, -priority, np.inf).argsort(1).argsort(1)
    sizes = rank if cell_steps is None else np.take_along_axis(np.sort(cell_steps, axis=1), rank, axis=1)
    step = np.where(boards == 0, sizes, -1).astype(np.int16)  # a row for each decision: small numbers save gigabytes
    wanted = boards == 0
    if live_cells is not None:
        wanted &= rank < live_cells[:, None]
    rows, cells = np.nonzero(wanted)
    return np.where(step[rows] < step[rows, cells][:, None], solutions[rows], 0).astype(np.uint8), cells


def ladder_steps(boards: Board) -> NDArray[np.float64]:
    """The step of `explain` that fills each cell, eliminations counted, up to rule "backbone".

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
