"""The ladder of rules: one step at a time, a whole solution by logic, and batches.

A rule is its index in `RULES`, from easy to hard; `ceiling` is the hardest rule allowed.
"""

import numpy as np

from sudoku_env.board import Board
from sudoku_env.kernels.backbone import NOT_BEGUN, find_backbone
from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.general import digit_of
from sudoku_env.kernels.ladder_state import (
    BACKBONE,
    BLANKS,
    BROKEN,
    CELL_COUNT,
    CLAIMING,
    DIGITS,
    DIRTY,
    FIRST,
    HEAD,
    HIDDEN_QUAD,
    HIDDEN_SINGLE,
    JELLYFISH,
    NAKED_PAIR,
    NAKED_SINGLE,
    POINTING,
    SEARCHED,
    TAIL,
    TURBOT_FISH,
    UNIT_COUNT,
    W_WING,
    X_WING,
    XY_WING,
    XYZ_WING,
    Table,
    Work,
    add_cell,
    apply_removed,
    begin_step,
    find_places,
    index_of,
    load,
    once_only,
    place,
)
from sudoku_env.kernels.patterns import fish, hidden_subset, locked, naked_subset
from sudoku_env.kernels.random import Int, Ints
from sudoku_env.kernels.search_state import LEFT, PHASE, UNFINISHED, Search
from sudoku_env.kernels.wings import turbot_fish, w_wing, xy_wing, xyz_wing


@kernel
def naked_single(board: Board, queue: Ints, state: Ints) -> Int:
    """Naked single: the blank cell with one candidate that came to it first, or −1."""
    while state[HEAD] < state[TAIL]:
        cell = queue[state[HEAD]]
        if board[cell] == 0:
            return cell
        state[HEAD] += 1
    return -1


@kernel
def hidden_single(units: Ints, masks: Ints, state: Ints) -> tuple[Int, Int]:
    """Hidden single: a digit with one place in a unit; rows first, then columns, boxes, and the lowest digit.

    Only units in which something changed since they were last looked at are looked at.

    Returns:
        The unit and the bit of the digit, or (−1, 0).
    """
    while state[DIRTY]:
        unit = index_of(state[DIRTY])
        hidden = once_only(units, masks, unit)
        if hidden:
            return unit, hidden & -hidden
        state[DIRTY] &= state[DIRTY] - 1
    return -1, np.int64(0)


@kernel
def find_single(
    units: Ints,
    ceiling: Int,
    board: Board,
    masks: Ints,
    queue: Ints,
    state: Ints,
    step: Ints,
    step_cells: Ints,
    step_units: Ints,
) -> Int:
    """Find the next single: its rule, at most `ceiling`, or −1.

    The step record gets its cell, its digit and, if it is a hidden one, the unit. There is none on a full board or once
    the board turned out contradictory.
    """
    if state[BROKEN] or state[BLANKS] == 0:
        return -1
    step[CELL_COUNT], step[UNIT_COUNT] = 1, 0
    cell = naked_single(board, queue, state)
    if cell >= 0:
        step[DIGITS], step_cells[0] = masks[cell], cell
        return NAKED_SINGLE
    if ceiling < HIDDEN_SINGLE:
        return -1
    unit, bit = hidden_single(units, masks, state)
    if unit < 0:
        return -1
    step[DIGITS], step[UNIT_COUNT], step_units[0] = bit, 1, unit
    for position in range(units.shape[1]):
        if masks[units[unit, position]] & bit:
            step_cells[0] = units[unit, position]
    return HIDDEN_SINGLE


@kernel
def next_single(table: Table, work: Work, ceiling: Int) -> Int:
    """`find_single` on a state."""
    return find_single(
        table.units,
        ceiling,
        work.board,
        work.masks,
        work.queue,
        work.state,
        work.step,
        work.step_cells,
        work.step_units,
    )


@kernel
def fill_singles(table: Table, work: Work, ceiling: Int) -> None:
    """Carry out singles, counting their uses, until there are none."""
    units, peers, unit_bits = table.units, table.peers, table.unit_bits
    board, masks, queue, state = work.board, work.masks, work.queue, work.state
    step, step_cells, step_units = work.step, work.step_cells, work.step_units
    while True:
        rule = find_single(units, ceiling, board, masks, queue, state, step, step_cells, step_units)
        if rule < 0:
            return
        work.uses[rule] += 1
        place(step_cells[0], step[DIGITS], peers, unit_bits, board, masks, queue, state)


@kernel
def eliminate(table: Table, work: Work, rule: Int) -> bool:
    """Apply a rule between `POINTING` and `TURBOT_FISH`, by `kernels.patterns` and `kernels.wings`."""
    if rule <= CLAIMING:
        return locked(table, work, rule == POINTING)
    if rule <= HIDDEN_QUAD:
        k = 2 + (rule - NAKED_PAIR) // 2
        if (rule - NAKED_PAIR) % 2 == 0:
            return naked_subset(table, work, k)
        return hidden_subset(table, work, k)
    if rule <= JELLYFISH:
        return fish(table, work, 2 + rule - X_WING)
    if rule == XY_WING:
        return xy_wing(table, work)
    if rule == XYZ_WING:
        return xyz_wing(table, work)
    if rule == W_WING:
        return w_wing(table, work)
    return turbot_fish(table, work)


@kernel
def backbone(table: Table, work: Work, search: Search) -> Int:
    """Backbone: the first blank cell that has the same digit in every solution. Record: the cell and the digit.

    Returns:
        BACKBONE, −1 if there is none, or UNFINISHED.
    """
    if not work.state[SEARCHED]:
        if not find_backbone(work.board, table.units, table.units_of, work.backbone, search):
            return UNFINISHED
        work.state[SEARCHED] = 1
    for cell in range(work.board.size):
        if work.board[cell] == 0 and work.backbone[cell]:
            begin_step(work, np.int64(1) << (np.int64(work.backbone[cell]) - 1))
            add_cell(work, cell)
            return BACKBONE
    return -1


@kernel
def find_pattern(table: Table, work: Work, ceiling: Int, search: Search) -> Int:
    """Find the next step where `next_single` finds none: its rule, the easiest one up to `ceiling`, or −1.

    The step record gets its digits, cells and units, and `work.removed` what it eliminates if it is not a placement.
    UNFINISHED where the search for the backbone used up what was left; the next call goes on with it.
    """
    if work.state[BROKEN] or work.state[BLANKS] == 0 or ceiling < POINTING:
        return -1
    find_places(table, work)
    work.state[FIRST] = 1
    for rule in range(POINTING, min(ceiling, TURBOT_FISH) + 1):
        if eliminate(table, work, rule):
            return rule
    return backbone(table, work, search) if ceiling == BACKBONE else -1


@kernel
def apply_step(table: Table, work: Work, rule: Int) -> None:
    """Carry out the step that `next_single` or `find_pattern` found, and count it."""
    work.uses[rule] += 1
    if rule <= HIDDEN_SINGLE or rule == BACKBONE:
        place(
            work.step_cells[0],
            work.step[DIGITS],
            table.peers,
            table.unit_bits,
            work.board,
            work.masks,
            work.queue,
            work.state,
        )
    else:
        apply_removed(table, work)


@kernel(inline="always")
def grade(board: Board, table: Table, ceiling: Int, work: Work, search: Search) -> Int:
    """Solve a board by logic and tell the hardest rule that it took.

    The easiest rule that makes progress is applied, then the search for a step starts again from the easiest. The
    result does not depend on the order of steps within a rule: it is the lowest ceiling that solves the board.

    Args:
        board: uint8 `(n²,)`; left as it is. Any board, contradictory ones included.
        table: `ladder_table(n)`.
        ceiling: Index in `RULES` of the hardest rule allowed, 0..`BACKBONE`.
        work: `new_work(n)`; what it held does not matter.
        search: `new_search(n)`; what it held does not matter.

    Returns:
        Index in `RULES` of the hardest rule used; −1 if the rules up to `ceiling` do not solve the board (so always, if
        it has not exactly one solution); 0 for a full board without a clash. Afterwards `work.board` holds the board as
        far as it was filled, `work.masks` the candidates left and `work.uses` how often each rule was used.
        UNFINISHED where the backbone took more than was left: `continue_grade` goes on.
    """
    load(board, table, work)
    search.state[PHASE] = NOT_BEGUN
    return continue_grade(table, ceiling, work, search)


@kernel
def continue_grade(table: Table, ceiling: Int, work: Work, search: Search) -> Int:
    """`grade` from where it is."""
    while True:
        fill_singles(table, work, ceiling)
        rule = find_pattern(table, work, ceiling, search)
        if rule == UNFINISHED:
            return UNFINISHED
        if rule < 0:
            break
        apply_step(table, work, rule)
    if work.state[BROKEN] or work.state[BLANKS]:
        return -1
    hardest = 0
    for rule in range(work.uses.size):
        if work.uses[rule]:
            hardest = rule
    return hardest


@kernel(nogil=True)
def grade_batch(
    first: Int, boards: Board, table: Table, ceiling: Int, hardest: Ints, uses: Ints, work: Work, search: Search
) -> Int:
    """`grade` for `(N, n²)` boards from `first` on; fills `hardest` int64 `(N,)` and `uses` int64 `(N, len(RULES))`.

    Returns:
        N, or the board to go on with in another call, where what was left is used up.
    """
    state = search.state
    for k in range(first, boards.shape[0]):
        if state[PHASE] != NOT_BEGUN:
            hardest[k] = continue_grade(table, ceiling, work, search)
        elif state[LEFT] > 0:
            hardest[k] = grade(boards[k], table, ceiling, work, search)
        else:
            return k
        if hardest[k] == UNFINISHED:
            return k
        steps = 1
        for rule in range(work.uses.size):
            uses[k, rule] = work.uses[rule]
            steps += work.uses[rule] if rule > HIDDEN_SINGLE else 0
        state[LEFT] -= steps * boards.shape[1]
    return boards.shape[0]


@kernel(nogil=True)
def definite_batch(
    first: Int, boards: Board, table: Table, ceiling: Int, out: Board, work: Work, search: Search
) -> Int:
    """Fill `out`, uint8 `(N, n²)`, from board `first` on, with the digits that are single after eliminations.

    That is `logic.definite_cells`.

    Returns:
        N, or the board to go on with in another call, where what was left is used up.
    """
    state = search.state
    for k in range(first, boards.shape[0]):
        if state[LEFT] <= 0:
            return k
        if ceiling == BACKBONE:
            if not find_backbone(boards[k], table.units, table.units_of, out[k], search):
                return k
            continue
        load(boards[k], table, work)
        rule = POINTING
        while rule <= ceiling:
            if rule == POINTING:
                find_places(table, work)
                state[LEFT] -= boards.shape[1]
            # What was taken out may have given an easier rule something to do.
            if eliminate(table, work, rule):
                apply_removed(table, work)
                rule = POINTING
            else:
                rule += 1
        note_singles(table.units, work.masks, ceiling >= HIDDEN_SINGLE, out[k])
    return boards.shape[0]


@kernel
def note_singles(units: Ints, masks: Ints, hidden: bool, out: Board) -> None:
    """Fill `out` with the digits of the naked and perhaps the hidden singles among candidates, in that order."""
    for cell in range(masks.size):
        single = masks[cell] & (masks[cell] - 1) == 0
        out[cell] = digit_of(masks[cell]) if masks[cell] and single else 0
    for unit in range(units.shape[0] if hidden else 0):
        once = once_only(units, masks, unit)
        for position in range(units.shape[1]):
            cell = units[unit, position]
            bits = masks[cell] & once
            if bits and out[cell] == 0:
                out[cell] = digit_of(bits & -bits)
