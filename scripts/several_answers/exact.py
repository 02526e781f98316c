"""What an ideal model solves of 4×4 boards, exactly: one recursion over all boards that have a completion.

A board is the set F of its filled cells, as the bits of a number, and one of its completions g. With N(F, g) the number
of grids that agree with g in F, the marginal of h's digit in cell ℓ is N(F ∪ ℓ, h) / N(F, g) for any completion h, and

    V(F, g) = Σ_S P(S | F, g) Σ_h Π_{ℓ ∈ S} p(h_ℓ | ℓ, F, g) · V(F ∪ S, h) / N(F ∪ S, h)

over the sets S that a pass may choose and all completions h: the division counts those once that agree in S too.
Boards with one completion have V = 1. Relabeled boards have the same V, so g is one of 12 grids. Where ties are broken
at random, so have the images under the other symmetries, and 805 of the 65,536 sets F stand for all.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from scripts.several_answers.ideal import (
    TOKENS,
    Order,
    grids_by_first_row,
    position_scores,
    token_chances,
)
from sudoku_env.board import Board, BoardLike, as_board
from sudoku_env.errors import BoardError

SIZE, CELLS = 4, 16
SETS = 1 << CELLS
BITS = 1 << np.arange(CELLS)
BASES = 12
RELABELINGS = 24

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Boards:
    """All boards with a completion, up to symmetry.

    Attributes:
        grids: uint8 `(288, 16)`, all grids, the 24 relabelings of a base after each other.
        agree: uint16 `(12, 288)`, the cells where a base and a grid agree, as bits.
        completions: int64 `(65536, 12)`, N(F, g).
        image: int64 `(65536,)`, the set that stands for F.
        symmetry: int64 `(65536,)`, the number of a symmetry that takes F to it.
        base_of: int64 `(symmetries, 12)`, the base of which the image of each base is a relabeling.
    """

    grids: Board
    agree: NDArray[np.uint16]
    completions: Ints
    image: Ints
    symmetry: Ints
    base_of: Ints

    @cached_property
    def filled(self) -> Ints:
        """The number of cells of each set, `(65536,)`."""
        return np.bitwise_count(np.arange(SETS)).astype(np.int64)


@cache
def all_boards(symmetric: bool) -> Boards:
    """The boards up to relabeling, and up to the other symmetries on demand."""
    bases = grids_by_first_row(SIZE)
    relabelings = np.array(list(permutations(range(1, SIZE + 1))), dtype=np.uint8)
    grids = relabelings[:, bases - 1].swapaxes(0, 1).reshape(-1, CELLS)
    agree = (bases[:, None] == grids) @ BITS

    # N(F, g) counts the grids whose cells of agreement hold F: sums over supersets, one cell after the other.
    completions = np.zeros((SETS, BASES), dtype=np.int64)
    np.add.at(completions, (agree, np.arange(BASES)[:, None]), 1)
    for bit in BITS:
        halves = completions.reshape(-1, 2, bit, BASES)
        halves[:, 0] += halves[:, 1]

    turns = _symmetries() if symmetric else np.arange(CELLS)[None]
    images = np.zeros((len(turns), SETS), dtype=np.int64)
    for cell in range(CELLS):
        images |= (np.arange(SETS) >> turns[:, cell, None] & 1) << cell
    symmetry = images.argmin(0)
    moved = bases[:, turns]  # (12, symmetries, 16)
    place = np.argsort(moved[..., :SIZE], axis=-1).astype(np.uint8) + 1  # relabels the first row to 1, 2, 3, 4
    relabeled = np.take_along_axis(place, moved - 1, axis=-1)
    base_of = (relabeled[:, :, None] == bases).all(-1).argmax(-1).T
    return Boards(grids, agree.astype(np.uint16), completions, images.min(0), symmetry, base_of)


def _symmetries() -> Ints:
    """The 128 symmetries of the cells: cell i of the image is cell `turns[s, i]`, `(128, 16)`."""
    cells = np.arange(CELLS).reshape(SIZE, SIZE)
    lines = [line for line in permutations(range(SIZE)) if {*line[:2]} in ({0, 1}, {2, 3})]
    turned = (cells, cells.T)
    return np.array([one[np.ix_(rows, columns)].ravel() for one in turned for rows in lines for columns in lines])


@dataclass(frozen=True, eq=False)
class Ceilings:
    """What an ideal model solves.

    Attributes:
        boards: The boards.
        valid: float64 `(65536, 12, 2)`, V for each set that stands for others, base and way of `TOKENS`.
    """

    boards: Boards
    valid: NDArray[np.float64]

    def of(self, board: BoardLike) -> NDArray[np.float64]:
        """The probability of a valid grid from a board, `(2,)`, for each of `TOKENS`.

        Raises:
            BoardError: The board is malformed, is not 4×4, or has no completion.
        """
        flat = as_board(board, SIZE)
        given = np.flatnonzero(flat)
        grids = np.flatnonzero((self.boards.grids[:, given] == flat[given]).all(1))
        if not len(grids):
            raise BoardError(f"{''.join(map(str, flat))} has no completion; ceilings are those of boards that have one")
        cells = int(BITS[given].sum())
        base = self.boards.base_of[self.boards.symmetry[cells], grids[0] // RELABELINGS]
        return self.valid[self.boards.image[cells], base]

    def mean(self, clues: int) -> NDArray[np.float64]:
        """The mean over all sets of so many clues of all grids, `(2,)`, for each of `TOKENS`.

        Raises:
            ValueError: There cannot be so many clues.
        """
        if not 0 <= clues <= CELLS:
            raise ValueError(f"clues={clues} must lie in 0..{CELLS}")
        return self.valid[self.boards.image[self.boards.filled == clues]].mean((0, 1))


def ceilings(order: Order, cells: int) -> Ceilings:
    """What an ideal model solves of all boards, at so many cells a pass.

    Raises:
        ValueError: `cells` is below 1.
    """
    if cells < 1:
        raise ValueError(f"cells={cells} must be at least 1: a pass fills so many")
    boards = all_boards(symmetric=order.ties == "random")
    valid = np.ones((SETS, BASES, len(TOKENS)))
    stand = np.unique(boards.image)
    stand = stand[(boards.completions[stand] > 1).any(1)]
    for filled in range(CELLS - 1, -1, -1):
        sets = stand[boards.filled[stand] == filled]
        wanted = sets[:, None, None].astype(np.uint16)
        member = boards.agree & wanted == wanted  # (sets, 12, 288)
        first = member.argmax(2) // RELABELINGS  # the first base that agrees in F with each base, relabeled
        place, base = np.nonzero((first == np.arange(BASES)) & (member.sum(2) > 1))
        if len(place):
            valid[sets[place], base] = _values(sets[place], member[place, base], order, cells, valid, boards)
        valid[sets] = valid[sets[:, None], first]
    return Ceilings(boards, valid)


def _values(
    sets: Ints, member: NDArray[np.bool_], order: Order, cells: int, valid: NDArray[np.float64], boards: Boards
) -> NDArray[np.float64]:
    """V of some boards, `(n, 2)`, from V of the boards with more cells filled.

    Args:
        sets: `(n,)`, the filled cells.
        member: `(n, 288)`, the completions.
        order: Which cells a pass fills.
        cells: How many.
        valid: V, known where more cells are filled.
        boards: The boards.
    """
    digits = boards.grids[:, :, None] == np.arange(1, SIZE + 1)  # (288, 16, 4)
    counts = np.rint(np.tensordot(member.astype(np.float32), digits.astype(np.float32), 1)).astype(np.int64)
    board, chosen, weight = chosen_sets(SETS - 1 - sets, position_scores(counts, order), cells)

    # Each choice of a board with each of its completions.
    number = member.sum(1)
    completions, start = np.nonzero(member)[1], np.cumsum(number) - number
    repeats = number[board]
    choice = np.repeat(np.arange(len(board)), repeats)
    within = np.arange(len(choice)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    board, chosen = board[choice], chosen[choice]
    grid = completions[start[board] + within]

    # The probability to choose and write it, and what is left to do then.
    chances, tokens = token_chances(counts), np.repeat(weight[choice][:, None], len(TOKENS), axis=1)
    for cell in range(CELLS):
        rows = np.flatnonzero(chosen >> cell & 1)
        tokens[rows] *= chances[board[rows], cell, boards.grids[grid[rows], cell] - 1]
    after, base = sets[board] | chosen, grid // RELABELINGS
    left = valid[boards.image[after], boards.base_of[boards.symmetry[after], base]]
    terms = tokens * left / boards.completions[after, base][:, None]
    return np.stack([np.bincount(board, one, minlength=len(sets)) for one in terms.T], axis=1)


def chosen_sets(blanks: Ints, scores: NDArray[np.float64], cells: int) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """The sets of cells that a pass may choose, and how probable each is.

    Cells are chosen one after the other, each among the open ones of the largest score with equal probability; the
    order in which a set came together does not matter for the pass.

    Args:
        blanks: int64 `(n,)`, the blank cells of n boards, as bits.
        scores: `(n, 16)`, the score of each cell.
        cells: How many are chosen; fewer where no more are open.

    Returns:
        The board of each choice int64 `(c,)`, its cells as bits int64 `(c,)`, its probability float64 `(c,)`.
    """
    board, chosen, weight = np.arange(len(blanks)), np.zeros_like(blanks), np.ones(len(blanks))
    for _ in range(min(cells, CELLS)):
        is_open = (blanks[board] & ~chosen)[:, None] & BITS > 0
        open_scores = np.where(is_open, scores[board], -np.inf)
        best = is_open & (open_scores == open_scores.max(1, keepdims=True))
        number = best.sum(1)
        row, cell = np.nonzero(best)
        done = number == 0  # nothing is open: the choice stays as it is

        # One more cell in each, and choices of the same cells made one.
        key = np.concatenate([board[done] * SETS + chosen[done], board[row] * SETS + (chosen[row] | BITS[cell])])
        key, which = np.unique(key, return_inverse=True)
        shares = np.concatenate([weight[done], (weight / np.maximum(number, 1))[row]])
        weight = np.bincount(which, shares).astype(np.float64)
        board, chosen = key // SETS, key % SETS
    return board, chosen, weight
