"""An ideal model of the data, and how it decodes: by the digits of all completions of a board.

Its marginals are p(v | cell, board), the share of the board's completions that have digit v in the cell. A pass fills
several cells from the marginals of one board, each independently of the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, geometry, size_of
from sudoku_env.errors import BoardError
from sudoku_env.kernels.grids import fill_all

Score = Literal["random", "margin", "probability"]
Ties = Literal["random", "left"]
TOKENS = ("sampled", "most probable")
"""How the digit of a chosen cell is taken from its marginal: drawn, or the most probable one (drawn among equals)."""
GRIDS_BY_FIRST_ROW = {4: 12, 6: 39_168}
"""By size, how many grids have 1, 2, … n as their first row."""


@dataclass(frozen=True)
class Order:
    """Which cells a pass fills.

    Attributes:
        score: "random" fills any; "margin" those with the largest ratio of the two largest marginals, as the strategy
            `margin` does; "probability" those with the largest marginal.
        ties: Among cells of the same score: "random" takes any, "left" the first in reading order.
    """

    score: Score
    ties: Ties = "random"

    def __post_init__(self) -> None:
        for name, values in (("score", get_args(Score)), ("ties", get_args(Ties))):
            if getattr(self, name) not in values:
                raise ValueError(f"{name}={getattr(self, name)!r} is unknown; choose one of {', '.join(values)}")


@cache
def grids_by_first_row(size: int) -> Board:
    """All grids whose first row is 1, 2, … n, uint8 `(M, n²)`, read-only; every grid is one of them relabeled.

    Raises:
        BoardError: The size is not in `GRIDS_BY_FIRST_ROW`.
    """
    if size not in GRIDS_BY_FIRST_ROW:
        raise BoardError(f"the grids of size {size} are not enumerated; choose one of {[*GRIDS_BY_FIRST_ROW]}")
    start = np.zeros(size * size, dtype=np.uint8)
    start[:size] = np.arange(1, size + 1)
    grids = np.zeros((GRIDS_BY_FIRST_ROW[size], size * size), dtype=np.uint8)
    fill_all(start, geometry(size).units_of, np.empty(3 * size, dtype=np.int64), grids)
    grids.flags.writeable = False
    return grids


def position_scores(counts: NDArray[np.int64], order: Order) -> NDArray[np.float64]:
    """The score of each cell; cells of equal scores are chosen among at random.

    Args:
        counts: `(…, n², n)`, numbers of completions with each digit in each cell. They are whole numbers, so that
            equal ratios give equal scores.
        order: Which cells are to score most.

    Returns:
        `(…, n²)`, inf where the margin has no second digit.
    """
    second, first = np.moveaxis(np.sort(counts, axis=-1)[..., -2:], -1, 0).astype(float)
    if order.score == "random":
        scores = np.zeros_like(first)
    elif order.score == "probability":
        scores = first
    else:
        scores = np.divide(first, second, out=np.full_like(first, np.inf), where=second > 0)
    if order.ties == "left":
        return -np.argsort(np.argsort(-scores, axis=-1, kind="stable"), axis=-1).astype(float)
    return scores


def token_chances(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The probability of each digit in each cell, in the two ways of `TOKENS`.

    Args:
        counts: `(…, n², n)`, numbers of completions with each digit in each cell.

    Returns:
        `(…, n², n, 2)`.
    """
    best = counts == counts.max(axis=-1, keepdims=True)
    ways = [counts / counts.sum(axis=-1, keepdims=True), best / best.sum(axis=-1, keepdims=True)]
    return np.stack(ways, axis=-1)


@dataclass(frozen=True, eq=False)
class Completions:
    """All completions of a board of size 4 or 6.

    Digits that the board does not have yet are interchangeable, so a row stands for all the completions that differ by
    them; each row stands for equally many.

    Attributes:
        grids: uint8 `(R, n²)`, of `grids_by_first_row`.
        digits: uint8 `(R, n)`, the board's digit for each digit of the grid, 0 where the board does not have it yet.
        used: bool `(n + 1,)`, the digits that the board has.
    """

    grids: Board
    digits: Board
    used: NDArray[np.bool_]

    @classmethod
    def of_the_empty_board(cls, size: int) -> "Completions":
        """All grids of a size.

        Raises:
            BoardError: They are not enumerated.
        """
        grids = grids_by_first_row(size)
        return cls(grids, np.zeros((len(grids), size), dtype=np.uint8), np.zeros(size + 1, dtype=bool))

    def __len__(self) -> int:
        return len(self.grids)

    def written(self, cell: int, digit: int) -> "Completions":
        """Those with a digit in a cell that was blank."""
        column = self.grids[:, cell] - 1
        now = self.digits[np.arange(len(self)), column]
        kept = now == (digit if self.used[digit] else 0)
        digits, used = self.digits[kept], self.used.copy()
        digits[np.arange(len(digits)), column[kept]] = digit
        used[digit] = True
        return Completions(self.grids[kept], digits, used)

    def counts(self) -> NDArray[np.int64]:
        """Numbers in proportion to the completions with each digit in each cell, `(n², n)`."""
        cells, size = self.grids.shape[1], self.digits.shape[1]
        digits = np.take_along_axis(self.digits, self.grids - 1, axis=1)  # (R, n²), 0 for any unused digit
        places = digits + np.arange(cells) * (size + 1)
        counts = np.bincount(places.ravel(), minlength=cells * (size + 1)).reshape(cells, size + 1)
        unused = ~self.used[1:]
        return counts[:, 1:] * max(int(unused.sum()), 1) + counts[:, :1] * unused


def passes(
    board: Board, order: Order, cells: int, tokens: int, rng: np.random.Generator
) -> Iterator[tuple[Board, Completions]]:
    """Decode a board once: what it is and how it can be completed at the start and after each pass.

    Args:
        board: uint8 `(n²,)`, of size 4 or 6, with a completion.
        order: Which cells a pass fills.
        cells: How many.
        tokens: An index of `TOKENS`.
        rng: Random numbers.

    Yields:
        A board and its completions; the last one is full, or has none.
    """
    board, size = board.copy(), size_of(board.size)
    found = Completions.of_the_empty_board(size)
    for cell in np.flatnonzero(board).tolist():
        found = found.written(cell, int(board[cell]))
    yield board.copy(), found
    while len(found) and not board.all():
        counts = found.counts()
        ranked = np.lexsort((rng.random(board.size), -position_scores(counts, order)))
        chosen = ranked[board[ranked] == 0][:cells].tolist()
        for cell, chances in zip(chosen, token_chances(counts[chosen])[..., tokens], strict=True):
            board[cell] = 1 + rng.choice(size, p=chances)
            found = found.written(cell, int(board[cell]))
        yield board.copy(), found
