"""Rules that eliminate candidates within units: locked candidates, subsets and fish.

Each takes the tables and the state, with `places` filled. It collects the eliminations of all its patterns, or, with
FIRST set in `work.state`, stops at the first pattern that eliminates something. It writes them to `work.removed`, which
must be zero before, notes the last pattern in the step record and says whether there is any. Nothing else changes.
Patterns are proper ones: a cell with a single candidate or a digit with a single place is in none.
"""

import numpy as np

from sudoku_env.kernels.compiling import kernel
from sudoku_env.kernels.general import count_bits
from sudoku_env.kernels.ladder_state import FIRST, Table, Work, add_cell, add_unit, begin_step, index_of
from sudoku_env.kernels.random import Int, Ints


@kernel
def next_cover(items: Ints, count: Int, k: Int, chosen: Ints) -> bool:
    """Choose the next k of the first `count` masks, in lexicographic order, whose union has exactly k bits.

    Args:
        items: int64 `(n,)` masks.
        count: How many of them to look at.
        k: How many to choose, and the number of bits of the union.
        chosen: int64 `(k,)` or longer, the last choice as ascending indices, −1 first to start; gets the next choice.

    Returns:
        Whether there is one.
    """
    depth = k - 1 if chosen[0] >= 0 else np.int64(0)
    chosen[depth] += 1
    while depth >= 0:
        if chosen[depth] > count - (k - depth):
            depth -= 1
            if depth >= 0:
                chosen[depth] += 1
            continue
        # A beginning whose union is too large already is not continued.
        union = np.int64(0)
        for i in range(depth + 1):
            union |= items[chosen[i]]
        bits = count_bits(union)
        if depth == k - 1 and bits == k:
            return True
        if depth == k - 1 or bits > k:
            chosen[depth] += 1
        else:
            depth += 1
            chosen[depth] = chosen[depth - 1] + 1
    return False


@kernel
def remove_digit(table: Table, work: Work, unit: Int, positions: Int, bit: Int) -> None:
    """Mark a digit for elimination at positions of a unit."""
    while positions:
        work.removed[table.units[unit, index_of(positions)]] |= bit
        positions &= positions - 1


@kernel
def add_cells(table: Table, work: Work, unit: Int, positions: Int) -> None:
    """Add the cells at positions of a unit to the record of the step."""
    while positions:
        add_cell(work, table.units[unit, index_of(positions)])
        positions &= positions - 1


@kernel
def locked(table: Table, work: Work, pointing: bool) -> bool:
    """Locked candidates: all places of a digit in one unit lie in another unit, so the rest of that one loses it.

    Pointing goes from a box to a row or column, claiming from a row or column to a box.
    Record: the places; the unit they fill, then the unit that loses the digit.
    """
    shared, places = table.shared, work.places
    found, first = False, work.state[FIRST]
    for k in range(table.crossings.shape[0]):
        source, target = table.crossings[k, 0], table.crossings[k, 1]
        if not pointing:
            source, target = target, source
        outside, inside = ~shared[source, target], shared[target, source]
        for digit in range(places.shape[1]):
            positions = places[source, digit]
            others = places[target, digit] & ~inside
            if others and positions & outside == 0 and positions & (positions - 1):
                found = True
                bit = np.int64(1) << digit
                remove_digit(table, work, target, others, bit)
                begin_step(work, bit)
                add_cells(table, work, source, positions)
                add_unit(work, source)
                add_unit(work, target)
                if first:
                    return True
    return found


@kernel
def naked_subset(table: Table, work: Work, k: Int) -> bool:
    """Naked subset: k cells of a unit have k candidates between them, so the other cells of the unit lose those.

    Record: the k cells; the unit; the k digits.
    """
    units, masks, removed, items = table.units, work.masks, work.removed, work.items
    labels, chosen = work.labels, work.chosen
    found, first = False, work.state[FIRST]
    for unit in range(units.shape[0]):
        count = np.int64(0)
        for position in range(units.shape[1]):
            mask = masks[units[unit, position]]
            if 2 <= count_bits(mask) <= k:
                items[count], labels[count] = mask, position
                count += 1
        chosen[0] = -1
        while next_cover(items, count, k, chosen):
            members, digits = np.int64(0), np.int64(0)
            for i in range(k):
                members |= np.int64(1) << labels[chosen[i]]
                digits |= items[chosen[i]]
            hit = False
            for position in range(units.shape[1]):
                cell = units[unit, position]
                if masks[cell] & digits and not (members >> position) & 1:
                    removed[cell] |= masks[cell] & digits
                    hit = True
            if hit:
                found = True
                begin_step(work, digits)
                add_cells(table, work, unit, members)
                add_unit(work, unit)
                if first:
                    return True
    return found


@kernel
def hidden_subset(table: Table, work: Work, k: Int) -> bool:
    """Hidden subset: k digits have k places between them in a unit, so those cells lose all their other candidates.

    Record: the k cells; the unit; the k digits.
    """
    units, masks, places, removed = table.units, work.masks, work.places, work.removed
    items, labels, chosen = work.items, work.labels, work.chosen
    found, first = False, work.state[FIRST]
    for unit in range(units.shape[0]):
        count = np.int64(0)
        for digit in range(places.shape[1]):
            positions = places[unit, digit]
            if 2 <= count_bits(positions) <= k:
                items[count], labels[count] = positions, digit
                count += 1
        chosen[0] = -1
        while next_cover(items, count, k, chosen):
            members, digits = np.int64(0), np.int64(0)
            for i in range(k):
                members |= items[chosen[i]]
                digits |= np.int64(1) << labels[chosen[i]]
            hit = False
            rest = members
            while rest:
                cell = units[unit, index_of(rest)]
                if masks[cell] & ~digits:
                    removed[cell] |= masks[cell] & ~digits
                    hit = True
                rest &= rest - 1
            if hit:
                found = True
                begin_step(work, digits)
                add_cells(table, work, unit, members)
                add_unit(work, unit)
                if first:
                    return True
    return found


@kernel
def fish(table: Table, work: Work, k: Int) -> bool:
    """Fish of size k: in k rows a digit has its places in k columns, so the rest of those columns loses it.

    Fish in columns are found in the same way, with rows and columns exchanged.
    Record: the places in the k lines; the k lines, then the k lines that cross them; the digit.
    """
    places, items, labels, chosen = work.places, work.items, work.labels, work.chosen
    found, first = False, work.state[FIRST]
    size = places.shape[1]
    for digit in range(size):
        bit = np.int64(1) << digit
        for base in (0, size):
            count = np.int64(0)
            for line in range(size):
                positions = places[base + line, digit]
                if 2 <= count_bits(positions) <= k:
                    items[count], labels[count] = positions, line
                    count += 1
            chosen[0] = -1
            while next_cover(items, count, k, chosen):
                lines, crossing = np.int64(0), np.int64(0)
                for i in range(k):
                    lines |= np.int64(1) << labels[chosen[i]]
                    crossing |= items[chosen[i]]
                hit = False
                rest = crossing
                while rest:
                    cross_unit = size - base + index_of(rest)
                    others = places[cross_unit, digit] & ~lines
                    remove_digit(table, work, cross_unit, others, bit)
                    hit = hit or others != 0
                    rest &= rest - 1
                if hit:
                    found = True
                    note_fish(table, work, digit, base, lines, crossing)
                    if first:
                        return True
    return found


@kernel
def note_fish(table: Table, work: Work, digit: Int, base: Int, lines: Int, crossing: Int) -> None:
    """Record a fish: `lines` are rows if `base` is 0, else columns, and `crossing` the others."""
    begin_step(work, np.int64(1) << digit)
    rest = lines
    while rest:
        unit = base + index_of(rest)
        add_unit(work, unit)
        add_cells(table, work, unit, work.places[unit, digit])
        rest &= rest - 1
    while crossing:
        add_unit(work, work.places.shape[1] - base + index_of(crossing))
        crossing &= crossing - 1
