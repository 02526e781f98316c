"""Solutions step by step: sound ones by the ladder of rules, and ones that a single planted fault leads astray."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sudoku_env.board import Board, BoardLike, as_board, cell_name, geometry, size_of
from sudoku_env.errors import SudokuError
from sudoku_env.explanation import Step, explain, placement_step
from sudoku_env.kernels.ladder_state import HIDDEN_SINGLE, NAKED_SINGLE
from sudoku_env.logic import candidates


@dataclass(frozen=True, eq=False)
class Derivation:
    """A full grid and the steps that lead to it; `str` gives the steps, a line each.

    Attributes:
        steps: The steps in order; every blank of the puzzle is filled by one of them.
        grid: uint8 `(n²,)`, the puzzle with the digits of the steps.
        fault: Index of the step that is false, None if all are sound.
    """

    steps: tuple[Step, ...]
    grid: Board
    fault: int | None = None

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    @property
    def conclusions(self) -> str:
        """What the steps that place a digit end in, without reasons: `so row 1, column 4 is 4`, a line each."""
        size = size_of(self.grid.size)
        placed = [(step.cell, step.digit) for step in self.steps if step.cell is not None]
        return "\n".join(f"so {cell_name(cell, size)} is {digit}" for cell, digit in placed)


def derive(board: BoardLike) -> Derivation:
    """The solution by logic that `explain` tells, up to its hardest pattern.

    Raises:
        BoardError: `explain` refuses the board.
        SudokuError: The rules do not fill the board.
    """
    flat = as_board(board)
    steps = tuple(explain(flat))
    grid = _write(flat, steps)
    if not grid.all():
        raise SudokuError(f"the rules leave {(grid == 0).sum()} cells blank; take a puzzle that `rate` calls solved")
    return Derivation(steps, grid)


def derive_with_fault(board: BoardLike, rng: np.random.Generator) -> Derivation:
    """A derivation with one false step, what comes of it, and a wrong grid.

    It is that of `derive` up to a step drawn uniformly from those that place a digit. There a cell is said to be a
    naked single of a wrong digit, because a unit is said to hold its right one, which it does not: either the wrong
    digit is possible as well, or, where no cell has just such a pair of candidates, a peer that holds it is misread
    as holding the right one, so that the two clash. Nothing else in the step is false.

    Every later step is a naked or hidden single whose reasons are true of the board as it then stands. Since that board
    has no solution, some cells end up with every digit ruled out; such a cell takes the digit that the fewest of its
    peers hold, for the true reason that each of the others stands in its units. That its own digit does too goes
    unnoticed. A fault after which singles get stuck is passed over.

    Args:
        board: A puzzle with one solution that `derive` finds, and at least one blank.
        rng: The generator that the choice comes from.

    Returns:
        As many placements as the sound derivation has (the same length where singles solve the puzzle); the cell of the
        fault holds a wrong digit.

    Raises:
        BoardError: `explain` refuses the board.
        SudokuError: The rules do not fill the board, or it has no blank.
    """
    flat = as_board(board)
    sound = derive(flat)
    placements = [place for place, step in enumerate(sound.steps) if step.cell is not None]
    for fault in rng.permutation(placements).tolist():
        before = sound.steps[:fault]
        standing = _write(flat, before)
        for step in _false_steps(standing, sound.grid, rng):
            after = _carry_on(_write(standing, (step,)))
            if after is not None:
                steps = (*before, step, *after)
                return Derivation(steps, _write(flat, steps), fault)
    raise SudokuError("the board has no blank to place a wrong digit in; give a puzzle")


def _false_steps(board: Board, solution: Board, rng: np.random.Generator) -> Iterator[Step]:
    """False naked singles in random order, those without a clash first."""
    possible, peers = candidates(board), geometry(size_of(board.size)).peers
    open_pairs, clashing = [], []
    for cell in np.flatnonzero(board == 0).tolist():
        right = int(solution[cell])
        options = set((np.flatnonzero(possible[cell]) + 1).tolist())
        if len(options) == 2:
            (wrong,) = options - {right}
            open_pairs += [(cell, wrong, peer) for peer in peers[cell].tolist() if board[peer] == 0]
        elif len(options) == 1:
            clashing += [(cell, int(board[peer]), peer) for peer in peers[cell].tolist() if board[peer]]
    for faults in (open_pairs, clashing):
        for index in rng.permutation(len(faults)):
            cell, wrong, peer = faults[index]
            misread = board.copy()
            misread[peer] = solution[cell]
            yield placement_step(NAKED_SINGLE, cell, wrong, (), misread)


def _carry_on(board: Board) -> list[Step] | None:
    """Fill a board without a solution by singles, in place; None where they get stuck."""
    steps = []
    while not board.all():
        step = _next_single(board)
        if step is None:
            return None
        board[step.cell] = step.digits[0]
        steps.append(step)
    return steps


def _next_single(board: Board) -> Step | None:
    """The first naked single, else the first hidden one, else the first cell without candidates, else None."""
    table = geometry(size_of(board.size))
    possible = candidates(board)
    options = possible.sum(1)
    naked = np.flatnonzero(options == 1)
    if naked.size:
        return placement_step(NAKED_SINGLE, int(naked[0]), int(possible[naked[0]].argmax()) + 1, (), board)
    for unit, cells in enumerate(table.units):
        hidden = np.flatnonzero(possible[cells].sum(0) == 1)
        if hidden.size:
            cell = cells[possible[cells, hidden[0]].argmax()]
            return placement_step(HIDDEN_SINGLE, int(cell), int(hidden[0]) + 1, (unit,), board)
    dead = np.flatnonzero((options == 0) & (board == 0))
    if dead.size:
        held = np.bincount(board[table.peers[dead[0]]], minlength=table.size + 1)[1:]
        return placement_step(NAKED_SINGLE, int(dead[0]), int(held.argmin()) + 1, (), board)
    return None


def _write(board: Board, steps: tuple[Step, ...]) -> Board:
    """A copy of the board with the digits of the steps."""
    written = board.copy()
    for step in steps:
        if step.cell is not None:
            written[step.cell] = step.digits[0]
    return written
