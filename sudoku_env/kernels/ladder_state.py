"""Tables and working state of the ladder of rules: candidates, the step found, and what a step changes.

Every use of a tuple's array counts references, which costs more than the little work of a single: what runs for every
single takes the arrays one by one.

Digit sets are int64 masks with bit d−1 for digit d. A set of positions is an int64 mask over the cells of a unit, in
the order of `Table.units`: in a row the position is the column, in a column it is the row.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, geometry
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.general import count_bits, digit_of, find_candidates, mark_used
from sudoku_env.kernels.random import Int, Ints

RULES = (
    "naked_single",
    "hidden_single",
    "pointing",
    "claiming",
    "naked_pair",
    "hidden_pair",
    "naked_triple",
    "hidden_triple",
    "naked_quad",
    "hidden_quad",
    "x_wing",
    "swordfish",
    "jellyfish",
    "xy_wing",
    "xyz_wing",
    "w_wing",
    "turbot_fish",
    "backbone",
)
NAKED_SINGLE, HIDDEN_SINGLE, POINTING, CLAIMING = 0, 1, 2, 3
NAKED_PAIR, HIDDEN_PAIR, NAKED_QUAD, HIDDEN_QUAD = 4, 5, 8, 9
X_WING, JELLYFISH, XY_WING, XYZ_WING, W_WING, TURBOT_FISH, BACKBONE = 10, 12, 13, 14, 15, 16, 17

# Entries of Work.state
DIRTY, HEAD, TAIL, BLANKS, BROKEN, SEARCHED, FIRST = 0, 1, 2, 3, 4, 5, 6
# Entries of Work.step
DIGITS, CELL_COUNT, UNIT_COUNT = 0, 1, 2


class Table(NamedTuple):
    """Index tables of one board size, from `ladder_table`; every array is read-only.

    Attributes:
        units: int64 `(3n, n)`, the cells of each unit: n rows, then n columns, then n boxes.
        units_of: int64 `(n², 3)`, the row, column and box unit of each cell.
        peers: int64 `(n², p)`, the other cells that share a unit with each cell.
        sees: bool `(n², n²)`, whether two cells are peers.
        unit_bits: int64 `(n²,)`, the three units of each cell as a mask over units.
        shared: int64 `(3n, 3n)`, the positions of the first unit that lie in the second one too.
        crossings: int64 `(c, 2)`, the pairs (box, row or column) with cells in common.
    """

    units: Ints
    units_of: Ints
    peers: Ints
    sees: NDArray[np.bool_]
    unit_bits: Ints
    shared: Ints
    crossings: Ints


class Work(NamedTuple):
    """State of one board on the ladder, from `new_work`; serves any number of boards of its size, one at a time.

    Attributes:
        board: uint8 `(n²,)`, the board with the digits placed so far.
        masks: int64 `(n²,)`, the candidates left in each blank cell, 0 in filled ones.
        removed: int64 `(n²,)`, the candidates that the step found eliminates.
        uses: int64 `(len(RULES),)`, how often `grade` used each rule.
        step: int64 `(3,)`, of the step found: its digits, its number of cells and its number of units.
        step_cells: int64 `(16,)`, the cells of its pattern; the cell to fill if it places a digit.
        step_units: int64 `(8,)`, the units of its pattern.
        places: int64 `(3n, n)`, the positions of each digit in each unit.
        state: int64 `(7,)`, DIRTY units to look at for hidden singles, HEAD and TAIL of the queue, BLANKS left,
            BROKEN if the board is contradictory, SEARCHED once `backbone` is filled, FIRST if rules are to stop at the
            first pattern that eliminates something.
        queue: int64 `(n²,)`, the cells whose candidates came down to one.
        backbone: uint8 `(n²,)`, the digits that stand in every solution.
        used: int64 `(3n,)`, scratch.
        items: int64 `(n,)`, scratch.
        labels: int64 `(n,)`, scratch.
        chosen: int64 `(4,)`, scratch.
        links: int64 `(3n, 3)`, scratch.
    """

    board: Board
    masks: Ints
    removed: Ints
    uses: Ints
    step: Ints
    step_cells: Ints
    step_units: Ints
    places: Ints
    state: Ints
    queue: Ints
    backbone: Board
    used: Ints
    items: Ints
    labels: Ints
    chosen: Ints
    links: Ints


@cache
def ladder_table(size: int) -> Table:
    """The tables of a board size.

    Raises:
        BoardError: The size is not supported.
    """
    plain = geometry(size)
    member = np.zeros((plain.cells, 3 * size), dtype=np.bool_)
    np.put_along_axis(member, plain.units_of, True, axis=1)
    sees = member.astype(np.int64) @ member.T.astype(np.int64) > 0
    np.fill_diagonal(sees, False)
    unit_bits = (np.int64(1) << plain.units_of).sum(1)
    shared = (member[plain.units] * (np.int64(1) << np.arange(size))[:, None]).sum(1)
    boxes, lines = np.nonzero(shared[2 * size :, : 2 * size])
    crossings = np.stack([boxes + 2 * size, lines], axis=1)
    for array in (sees, unit_bits, shared, crossings):
        array.flags.writeable = False
    return Table(plain.units, plain.units_of, plain.peers, sees, unit_bits, shared, crossings)


def new_work(size: int) -> Work:
    """Working state for boards of a size; a thread needs one of its own."""
    cells = size * size
    return Work(
        np.zeros(cells, np.uint8),
        np.zeros(cells, np.int64),
        np.zeros(cells, np.int64),
        np.zeros(len(RULES), np.int64),
        np.zeros(3, np.int64),
        np.zeros(16, np.int64),
        np.zeros(8, np.int64),
        np.zeros((3 * size, size), np.int64),
        np.zeros(7, np.int64),
        np.zeros(cells, np.int64),
        np.zeros(cells, np.uint8),
        np.zeros(3 * size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(4, np.int64),
        np.zeros((3 * size, 3), np.int64),
    )


@kernel
def load(board: Board, table: Table, work: Work) -> None:
    """Start on a board, uint8 `(n²,)`: its candidates, no step found, no rule used."""
    state, masks, queue = work.state, work.masks, work.queue
    for cell in range(board.size):
        work.board[cell] = board[cell]
    work.removed[:] = 0
    work.uses[:] = 0
    state[:] = 0
    state[DIRTY] = (np.int64(1) << table.units.shape[0]) - 1
    legal = mark_used(board, table.units_of, work.used)
    possible = find_candidates(board, table.units_of, work.used, masks)
    state[BROKEN] = not (legal and possible)
    for cell in range(board.size):
        state[BLANKS] += board[cell] == 0
        if masks[cell] and masks[cell] & (masks[cell] - 1) == 0:
            queue[state[TAIL]] = cell
            state[TAIL] += 1


@kernel
def strike(cell: Int, digits: Int, unit_bits: Ints, masks: Ints, queue: Ints, state: Ints) -> None:
    """Take candidates that a blank cell has from it, and keep the queue of single candidates up to date."""
    left = masks[cell] & ~digits
    masks[cell] = left
    state[DIRTY] |= unit_bits[cell]
    if left & (left - 1) == 0:
        if left == 0:
            state[BROKEN] = 1
        else:
            queue[state[TAIL]] = cell
            state[TAIL] += 1


@kernel
def place(
    cell: Int, bit: Int, peers: Ints, unit_bits: Ints, board: Board, masks: Ints, queue: Ints, state: Ints
) -> None:
    """Write a digit into a blank cell and take it from the peers' candidates."""
    board[cell] = digit_of(bit)
    masks[cell] = 0
    state[BLANKS] -= 1
    state[DIRTY] |= unit_bits[cell]
    for k in range(peers.shape[1]):
        peer = peers[cell, k]
        if masks[peer] & bit:
            strike(peer, bit, unit_bits, masks, queue, state)


@kernel
def apply_removed(table: Table, work: Work) -> None:
    """Take the eliminations of the step found from the candidates."""
    for cell in range(work.removed.size):
        if work.removed[cell]:
            strike(cell, work.removed[cell], table.unit_bits, work.masks, work.queue, work.state)
            work.removed[cell] = 0


@kernel
def find_places(table: Table, work: Work) -> None:
    """Fill `work.places` from the candidates."""
    places, masks = work.places, work.masks
    places[:] = 0
    for unit in range(places.shape[0]):
        for position in range(places.shape[1]):
            rest = masks[table.units[unit, position]]
            while rest:
                places[unit, index_of(rest)] |= np.int64(1) << position
                rest &= rest - 1


@kernel
def index_of(mask: Int) -> Int:
    """Index of the lowest bit set."""
    return count_bits((mask & -mask) - 1)


@kernel
def once_only(units: Ints, masks: Ints, unit: Int) -> Int:
    """The digits that are a candidate of exactly one cell of the unit."""
    once, twice = np.int64(0), np.int64(0)
    for position in range(units.shape[1]):
        mask = masks[units[unit, position]]
        twice |= once & mask
        once |= mask
    return once & ~twice


@kernel
def begin_step(work: Work, digits: Int) -> None:
    """Start the record of a step: its digits, no cells, no units."""
    work.step[DIGITS], work.step[CELL_COUNT], work.step[UNIT_COUNT] = digits, 0, 0


@kernel
def add_cell(work: Work, cell: Int) -> None:
    """Add a cell to the record of the step."""
    work.step_cells[work.step[CELL_COUNT]] = cell
    work.step[CELL_COUNT] += 1


@kernel
def add_unit(work: Work, unit: Int) -> None:
    """Add a unit to the record of the step."""
    work.step_units[work.step[UNIT_COUNT]] = unit
    work.step[UNIT_COUNT] += 1
