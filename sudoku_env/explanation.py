"""A solution by logic in words: every step with its rule, its cells and the reason.

The steps are those that `rate` counts; the words are written from the step that the kernels report and from the
candidates that earlier steps left.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sudoku_env.board import Board, BoardLike, cell_name, check_no_clash, geometry, size_of
from sudoku_env.kernels.ladder import apply_step, find_pattern, next_single
from sudoku_env.kernels.ladder_state import (
    BACKBONE,
    CELL_COUNT,
    CLAIMING,
    DIGITS,
    HIDDEN_QUAD,
    HIDDEN_SINGLE,
    JELLYFISH,
    NAKED_PAIR,
    NAKED_SINGLE,
    RULES,
    UNIT_COUNT,
    W_WING,
    XY_WING,
    XYZ_WING,
    Work,
    ladder_table,
    load,
    new_work,
)
from sudoku_env.kernels.search_state import LEFT, PIECE, UNFINISHED, new_search
from sudoku_env.logic import rule_index


@dataclass(frozen=True)
class Step:
    """One step of a solution by logic; `str(step)` is a sentence or two that justify it.

    Cells are indices 0..n²−1, in text `row r, column c` from 1; boxes are numbered row by row.

    Attributes:
        rule: One of `RULES`.
        cell: The cell that is filled, None for an elimination.
        digit: The digit that it gets, None for an elimination.
        eliminated: The candidates that an elimination removes, as (cell, digit), ascending; at least one, or empty for
            a placement (whose digit leaves the peers' candidates without a step of its own).
        digits: The digits of the pattern, ascending; the digit placed, for a placement.
        cells: The cells of the pattern: the cell filled; the places of a locked digit; the cells of a subset; the
            places of a fish, line by line; pivot and pincers of a wing; for a W-wing and a turbot fish the chain
            from end to end.
        units: The units that it follows from, e.g. `row 3`; a naked single has its cell's three.
        text: What `str` gives.
    """

    rule: str
    cell: int | None
    digit: int | None
    eliminated: tuple[tuple[int, int], ...]
    digits: tuple[int, ...]
    cells: tuple[int, ...]
    units: tuple[str, ...]
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text


def explain(board: BoardLike, rule: str = "patterns") -> list[Step]:
    """The steps of a solution by logic, in the order of `rate`: the easiest rule that makes progress each time.

    The list ends when the board is full, when the rules allowed make no more progress (then it is not solved; with
    "backbone" the solver fills such cells, one at a time, as long as all solutions agree), or when a blank cell has
    no candidate left, so that the board has no solution.

    Args:
        board: Anything `as_board` takes.
        rule: The hardest rule allowed, one of `RULES` or of `RULE_GROUPS`; "patterns" is all but "backbone".

    Raises:
        BoardError: A wrong shape, a value out of range, a clash on the board, or an unknown rule.
    """
    return list(iterate_steps(board, rule))


def iterate_steps(board: BoardLike, rule: str = "patterns") -> Iterator[Step]:
    """The steps of `explain` one by one, each found when it is asked for."""
    flat = check_no_clash(board)
    size = size_of(flat.size)
    ceiling = rule_index(rule)
    table, work, search = ladder_table(size), new_work(size), new_search(size)
    load(flat, table, work)
    while True:
        found = next_single(table, work, ceiling)
        if found < 0:
            found = UNFINISHED
        while found == UNFINISHED:
            search.state[LEFT] = PIECE
            found = find_pattern(table, work, ceiling, search)
        if found < 0:
            return
        yield describe_step(int(found), work, size)
        apply_step(table, work, found)


def unit_name(unit: int, size: int) -> str:
    """A unit for people, e.g. 11 on a 9×9 board → `column 3`."""
    return f"{('row', 'column', 'box')[unit // size]} {unit % size + 1}"


def describe_step(rule: int, work: Work, size: int) -> Step:
    """Put into words the step that the kernels found and noted in `work`, before it is applied."""
    cells = [int(cell) for cell in work.step_cells[: work.step[CELL_COUNT]]]
    units = [int(unit) for unit in work.step_units[: work.step[UNIT_COUNT]]]
    digits = _digits(work.step[DIGITS])
    eliminated = [(int(cell), digit) for cell in np.flatnonzero(work.removed) for digit in _digits(work.removed[cell])]
    if not eliminated:
        return placement_step(rule, cells[0], digits[0], units, work.board)
    units = _with_links(rule, cells, units, size)
    reason = _elimination_reason(rule, cells, digits, units, work, size)
    conclusion = _eliminations(eliminated, size)
    if rule > JELLYFISH:
        verb = "each share" if len(eliminated) > 1 else "shares"
        conclusion += f", which {verb} a unit with {'all three' if rule == XYZ_WING else 'both'}"
    return Step(
        rule=RULES[rule],
        cell=None,
        digit=None,
        eliminated=tuple(eliminated),
        digits=tuple(digits),
        cells=tuple(cells),
        units=tuple(unit_name(unit, size) for unit in units),
        text=f"{_TITLES[rule]}: {reason}, so {conclusion}.",
    )


def placement_step(rule: int, cell: int, digit: int, units: Sequence[int], board: Board) -> Step:
    """Put into words that a digit is placed; whether the rule allows it is not looked at.

    Args:
        rule: Index in `RULES`.
        cell: The cell to fill.
        digit: The digit that it gets.
        units: The units that it follows from; a naked single takes those of its cell instead.
        board: uint8 `(n²,)` before the step, from which a naked single reads what stands in its units. Any other digit
            that does not stand there is said to have been eliminated before.
    """
    size = size_of(board.size)
    if rule == NAKED_SINGLE:
        units = geometry(size).units_of[cell].tolist()
    return Step(
        rule=RULES[rule],
        cell=cell,
        digit=digit,
        eliminated=(),
        digits=(digit,),
        cells=(cell,),
        units=tuple(unit_name(unit, size) for unit in units),
        text=f"{_TITLES[rule]}: {_placement_reason(rule, cell, digit, units, board)}, "
        f"so {cell_name(cell, size)} is {digit}.",
    )


def _placement_reason(rule: int, cell: int, digit: int, units: Sequence[int], board: Board) -> str:
    size = size_of(board.size)
    name = cell_name(cell, size)
    if rule == BACKBONE:
        return f"{name} holds {digit} in every solution, as a search shows"
    if rule == HIDDEN_SINGLE:
        return f"in {unit_name(units[0], size)} the digit {digit} fits only in {_within([cell], units[0], size)}"
    return f"{name} can only be {digit} ({_others_ruled_out(digit, units, board, size)})"


def _others_ruled_out(digit: int, units: Sequence[int], board: Board, size: int) -> str:
    """Why a cell has one candidate left: each other digit stands in its row, column or box, or was eliminated."""
    left = set(range(1, size + 1)) - {digit}
    reasons = []
    for unit in units:
        standing = sorted(left & set(board[geometry(size).units[unit]].tolist()))
        left -= set(standing)
        if standing:
            reasons.append(f"{unit_name(unit, size)} holds {_join(standing)}")
    if left:
        reasons.append(f"{_join(sorted(left))} {'was' if len(left) == 1 else 'were'} eliminated before")
    return "; ".join(reasons)


def _elimination_reason(
    rule: int, cells: Sequence[int], digits: Sequence[int], units: Sequence[int], work: Work, size: int
) -> str:
    names = [unit_name(unit, size) for unit in units]
    if rule <= CLAIMING:
        line = min(units[:2])
        return f"in {names[0]} the digit {digits[0]} is confined to {names[1]} ({_within(cells, line, size)})"
    if rule <= HIDDEN_QUAD:
        where = _within(cells, units[0], size)
        if (rule - NAKED_PAIR) % 2 == 0:
            return f"in {names[0]} the cells in {where} have no candidates but {_join(digits)}"
        return f"in {names[0]} the digits {_join(digits)} fit only in {where}"
    if rule <= JELLYFISH:
        base, cover = units[: len(units) // 2], units[len(units) // 2 :]
        return f"in {_lines(base, size)} the digit {digits[0]} fits only in {_lines(cover, size)}"
    return _chain_reason(rule, cells, digits[0], names, work, size)


def _chain_reason(rule: int, cells: Sequence[int], z: int, units: Sequence[str], work: Work, size: int) -> str:
    """Why one of the ends of a wing or a turbot fish is z."""
    name = [cell_name(cell, size) for cell in cells]
    options = [_join(_digits(work.masks[cell]), "or") for cell in cells]
    other = [next((digit for digit in _digits(work.masks[cell]) if digit != z), z) for cell in cells]
    if rule in (XY_WING, XYZ_WING):
        return (
            f"{name[0]} is {options[0]}; "
            f"if it is {other[1]}, then {name[1]} ({options[1]}, also in {units[0]}) is {z}; "
            f"if it is {other[2]}, then {name[2]} ({options[2]}, also in {units[1]}) is {z}; "
            f"hence one of {'the three' if rule == XYZ_WING else 'the last two'} is {z}"
        )
    if rule == W_WING:
        x = other[0]
        return (
            f"{name[0]} and {name[3]} are both {options[0]}; in {units[0]} the digit {x} fits only in {name[1]}, "
            f"which shares {units[1]} with the first, and in {name[2]}, which shares {units[2]} with the second; "
            f"hence not both are {x} and one of them is {z}"
        )
    return (
        f"in {units[0]} the digit {z} fits only in {name[0]} and {name[1]}, in {units[1]} only in {name[2]} and "
        f"{name[3]}; {name[1]} and {name[2]} share {units[2]}, so not both are {z}; "
        f"hence one of {name[0]} and {name[3]} is {z}"
    )


def _with_links(rule: int, cells: Sequence[int], units: Sequence[int], size: int) -> list[int]:
    """The units of the record; for a wing or turbot fish also one for each pair of cells that are "not both"."""
    if rule <= JELLYFISH:
        return list(units)
    if rule in (XY_WING, XYZ_WING):
        links = [(cells[0], cells[1]), (cells[0], cells[2])]
    elif rule == W_WING:
        links = [(cells[0], cells[1]), (cells[2], cells[3])]
    else:
        links = [(cells[1], cells[2])]
    units_of = geometry(size).units_of
    return [*units, *(int(np.intersect1d(units_of[a], units_of[b])[0]) for a, b in links)]


def _eliminations(eliminated: Iterable[tuple[int, int]], size: int) -> str:
    """E.g. `2 and 5 are eliminated from row 4, column 3; 8 from row 4, column 3 and row 5, columns 1 and 2`."""
    cells_of: dict[int, list[int]] = {}
    for cell, digit in eliminated:
        cells_of.setdefault(digit, []).append(cell)
    digits_of: dict[tuple[int, ...], list[int]] = {}
    for digit in sorted(cells_of):
        digits_of.setdefault(tuple(cells_of[digit]), []).append(digit)
    parts = [f"{_join(digits)} from {_cells(cells, size)}" for cells, digits in digits_of.items()]
    verb = "are" if len(next(iter(digits_of.values()))) > 1 else "is"
    return "; ".join(parts).replace(" from", f" {verb} eliminated from", 1)


def _digits(mask: int) -> list[int]:
    return [digit for digit in range(1, int(mask).bit_length() + 1) if (int(mask) >> (digit - 1)) & 1]


def _join(items: Iterable[object], word: str = "and") -> str:
    *head, last = [str(item) for item in items]
    return f"{', '.join(head)} {word} {last}" if head else last


def _numbered(noun: str, numbers: Iterable[int]) -> str:
    """E.g. `row 2` or `rows 2 and 5`."""
    ordered = sorted(set(numbers))
    return f"{noun}{'s' if len(ordered) > 1 else ''} {_join(ordered)}"


def _lines(units: Sequence[int], size: int) -> str:
    return _numbered("row" if units[0] < size else "column", (unit % size + 1 for unit in units))


def _within(cells: Sequence[int], unit: int, size: int) -> str:
    """Cells of a unit, without the row or column that the unit itself is."""
    if unit < size:
        return _numbered("column", (cell % size + 1 for cell in cells))
    if unit < 2 * size:
        return _numbered("row", (cell // size + 1 for cell in cells))
    return _cells(cells, size)


def _cells(cells: Sequence[int], size: int) -> str:
    """E.g. `rows 1 and 4, column 3 and row 6, columns 1 and 2`, rows with the same columns together."""
    columns_of: dict[int, list[int]] = {}
    for cell in sorted(cells):
        columns_of.setdefault(cell // size + 1, []).append(cell % size + 1)
    rows_of: dict[tuple[int, ...], list[int]] = {}
    for row, columns in columns_of.items():
        rows_of.setdefault(tuple(columns), []).append(row)
    return " and ".join(
        f"{_numbered('row', rows)}, {_numbered('column', columns)}" for columns, rows in rows_of.items()
    )


_TITLES = tuple(
    {"x_wing": "X-wing", "xy_wing": "XY-wing", "xyz_wing": "XYZ-wing", "w_wing": "W-wing"}.get(
        rule, rule.replace("_", " ").capitalize()
    )
    for rule in RULES
)
