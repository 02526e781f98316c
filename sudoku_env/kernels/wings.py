"""Rules that eliminate candidates across units by short chains: wings and turbot fish.

Arguments, effect and result are those of `kernels.patterns`. Every rule here ends in two cells one of which must hold
a digit, so whatever sees both loses it. None of them assumes that the solution is unique.
"""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.general import count_bits
from sudoku_env.kernels.ladder_state import FIRST, Table, Work, add_cell, add_unit, begin_step, index_of
from sudoku_env.kernels.random import Int, Ints


@kernel
def remove_from_common_peers(
    peers: Ints, sees: NDArray[np.bool_], masks: Ints, removed: Ints, one: Int, other: Int, bit: Int
) -> bool:
    """Mark a digit for elimination in every cell that sees both cells; False if there is none with it."""
    hit = False
    for k in range(peers.shape[1]):
        cell = peers[one, k]
        if masks[cell] & bit and sees[other, cell]:
            removed[cell] |= bit
            hit = True
    return hit


@kernel
def note_cells(work: Work, digits: Int, a: Int, b: Int, c: Int) -> None:
    """Record a step of three cells."""
    begin_step(work, digits)
    add_cell(work, a)
    add_cell(work, b)
    add_cell(work, c)


@kernel
def xy_wing(table: Table, work: Work) -> bool:
    """XY-wing: a pivot {x, y} sees a cell {x, z} and a cell {y, z}; one of these two is z, so what sees both loses z.

    Record: pivot, {x, z}, {y, z}; the digit z.
    """
    peers, sees, masks, removed = table.peers, table.sees, work.masks, work.removed
    found, first = False, work.state[FIRST]
    for pivot in range(masks.size):
        if count_bits(masks[pivot]) != 2:
            continue
        x = masks[pivot] & -masks[pivot]
        y = masks[pivot] ^ x
        for i in range(peers.shape[1]):
            a = peers[pivot, i]
            if count_bits(masks[a]) != 2 or masks[a] & masks[pivot] != x:
                continue
            z = masks[a] ^ x
            for j in range(peers.shape[1]):
                b = peers[pivot, j]
                if masks[b] == y | z and remove_from_common_peers(peers, sees, masks, removed, a, b, z):
                    found = True
                    note_cells(work, z, pivot, a, b)
                    if first:
                        return True
    return found


@kernel
def xyz_wing(table: Table, work: Work) -> bool:
    """XYZ-wing: a pivot {x, y, z} sees a cell {x, z} and a cell {y, z}; one of the three is z.

    What sees all three loses z. Record: pivot, {x, z}, {y, z}; the digit z.
    """
    peers, sees, masks, removed = table.peers, table.sees, work.masks, work.removed
    found, first = False, work.state[FIRST]
    for pivot in range(masks.size):
        if count_bits(masks[pivot]) != 3:
            continue
        for i in range(peers.shape[1]):
            a = peers[pivot, i]
            if count_bits(masks[a]) != 2 or masks[a] & ~masks[pivot]:
                continue
            for j in range(i + 1, peers.shape[1]):
                b = peers[pivot, j]
                if count_bits(masks[b]) != 2 or masks[b] & ~masks[pivot] or masks[a] == masks[b]:
                    continue
                z = masks[a] & masks[b]
                hit = False
                for k in range(peers.shape[1]):
                    cell = peers[pivot, k]
                    if masks[cell] & z and sees[a, cell] and sees[b, cell]:
                        removed[cell] |= z
                        hit = True
                if hit:
                    found = True
                    note_cells(work, z, pivot, a, b)
                    if first:
                        return True
    return found


@kernel
def find_links(table: Table, work: Work, digit: Int) -> Int:
    """Fill `work.links` with (unit, cell, cell) for each unit where the digit has exactly two places; their number."""
    count = np.int64(0)
    for unit in range(table.units.shape[0]):
        positions = work.places[unit, digit]
        if count_bits(positions) == 2:
            work.links[count, 0] = unit
            work.links[count, 1] = table.units[unit, index_of(positions)]
            work.links[count, 2] = table.units[unit, index_of(positions & (positions - 1))]
            count += 1
    return count


@kernel
def w_wing(table: Table, work: Work) -> bool:
    """W-wing: two cells {x, y} apart see one each of the only two places of x in a unit.

    One place is x, so the cell that sees it is y: what sees both cells loses y.
    Record: the first cell, the place it sees, the place the second cell sees, the second cell; the unit; the digit y.
    """
    peers, sees, masks, removed = table.peers, table.sees, work.masks, work.removed
    size, links = work.places.shape[1], work.links
    found, first = False, work.state[FIRST]
    for digit in range(size):
        x = np.int64(1) << digit
        count = find_links(table, work, digit)
        for a in range(masks.size):
            if not masks[a] & x or count_bits(masks[a]) != 2:
                continue
            y = masks[a] ^ x
            for b in range(a + 1, masks.size):
                if masks[b] != masks[a] or sees[a, b]:
                    continue
                for i in range(count):
                    p, q = links[i, 1], links[i, 2]
                    if not (sees[a, p] and sees[b, q]):
                        p, q = q, p
                    if sees[a, p] and sees[b, q] and remove_from_common_peers(peers, sees, masks, removed, a, b, y):
                        found = True
                        note_cells(work, y, a, p, q)
                        add_cell(work, b)
                        add_unit(work, links[i, 0])
                        if first:
                            return True
    return found


@kernel
def turbot_fish(table: Table, work: Work) -> bool:
    """Turbot fish: a digit has two places in each of two units, and one of the first pair sees one of the second.

    These two are not both the digit, so one of the other two is, and what sees both of those loses it. Two rows or two
    columns make a skyscraper, a row and a column joined in a box a two-string kite. The four cells are different.
    Record: outer place, inner place, inner place, outer place; the two units; the digit.
    """
    peers, sees, masks, removed = table.peers, table.sees, work.masks, work.removed
    size, links = work.places.shape[1], work.links
    found, first = False, work.state[FIRST]
    for digit in range(size):
        bit = np.int64(1) << digit
        count = find_links(table, work, digit)
        for i in range(count):
            for j in range(i + 1, count):
                for turn in range(4):
                    a, b = links[i, 1 + (turn & 1)], links[i, 2 - (turn & 1)]
                    d, c = links[j, 1 + (turn >> 1)], links[j, 2 - (turn >> 1)]
                    if (
                        sees[b, c]
                        and a != c
                        and a != d
                        and b != d
                        and remove_from_common_peers(peers, sees, masks, removed, a, d, bit)
                    ):
                        found = True
                        note_cells(work, bit, a, b, c)
                        add_cell(work, d)
                        add_unit(work, links[i, 0])
                        add_unit(work, links[j, 0])
                        if first:
                            return True
    return found
