"""Boards for the ladder of rules: real puzzles, and one textbook example of each rule worked by hand.

The examples are 9×9 boards whose cells have all candidates but those that are said to be missing; rows and columns
count from 1.
"""

from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[2] / "data"

ALL = range(1, 10)


def exchange(tier):
    """Puzzles of a tier, uint8 `(80, 81)`."""
    lines = (DATA / f"sudoku_exchange_{tier}.txt").read_text().split()
    return np.array([[0 if symbol == "." else int(symbol) for symbol in line] for line in lines], dtype=np.uint8)


def set_candidates(work, options):
    """Give a state of the ladder these candidate sets."""
    work.masks[:] = [sum(1 << (digit - 1) for digit in option) for option in options]


def cell(row, column):
    return 9 * (row - 1) + column - 1


def at(rows, columns):
    return [cell(row, column) for row in rows for column in columns]


ROW = {row: at([row], ALL) for row in ALL}
COLUMN = {column: at(ALL, [column]) for column in ALL}
BOX = {1: at((1, 2, 3), (1, 2, 3)), 5: at((4, 5, 6), (4, 5, 6))}


def confined(digit, unit, cells):
    """A digit has no other places in the unit."""
    return {other: {digit} for other in unit if other not in cells}


def only(where):
    """Cells have no other candidates."""
    return {place: set(ALL) - set(digits) for place, digits in where.items()}


def merged(*parts):
    result = {}
    for part in parts:
        for place, digits in part.items():
            result[place] = result.get(place, set()) | digits
    return result


def lose(cells, digits):
    return {(place, digit) for place in cells for digit in digits}


# rule: (candidates missing, eliminations, sentence)
EXAMPLES = {
    "pointing": (
        confined(4, BOX[1], at([2], [1, 3])),
        lose(at([2], [4, 5, 6, 7, 8, 9]), [4]),
        "Pointing: in box 1 the digit 4 is confined to row 2 (columns 1 and 3), "
        "so 4 is eliminated from row 2, columns 4, 5, 6, 7, 8 and 9.",
    ),
    "claiming": (
        confined(8, ROW[1], at([1], [7, 8])),
        lose(at([2, 3], [7, 8, 9]), [8]),
        "Claiming: in row 1 the digit 8 is confined to box 3 (columns 7 and 8), "
        "so 8 is eliminated from rows 2 and 3, columns 7, 8 and 9.",
    ),
    "naked_pair": (
        only({cell(1, 1): [2, 7], cell(1, 5): [2, 7]}),
        lose(at([1], [2, 3, 4, 6, 7, 8, 9]), [2, 7]),
        "Naked pair: in row 1 the cells in columns 1 and 5 have no candidates but 2 and 7, "
        "so 2 and 7 are eliminated from row 1, columns 2, 3, 4, 6, 7, 8 and 9.",
    ),
    "hidden_pair": (
        merged(*(confined(digit, ROW[4], at([4], [2, 4])) for digit in (1, 5))),
        lose(at([4], [2, 4]), [2, 3, 4, 6, 7, 8, 9]),
        "Hidden pair: in row 4 the digits 1 and 5 fit only in columns 2 and 4, "
        "so 2, 3, 4, 6, 7, 8 and 9 are eliminated from row 4, columns 2 and 4.",
    ),
    "naked_triple": (
        only({cell(1, 3): [1, 2], cell(5, 3): [2, 3], cell(9, 3): [1, 3]}),
        lose(at([2, 3, 4, 6, 7, 8], [3]), [1, 2, 3]),
        "Naked triple: in column 3 the cells in rows 1, 5 and 9 have no candidates but 1, 2 and 3, "
        "so 1, 2 and 3 are eliminated from rows 2, 3, 4, 6, 7 and 8, column 3.",
    ),
    "hidden_triple": (
        merged(
            confined(1, BOX[5], [cell(4, 4), cell(5, 5)]),
            confined(2, BOX[5], [cell(5, 5), cell(6, 6)]),
            confined(3, BOX[5], [cell(4, 4), cell(5, 5), cell(6, 6)]),
        ),
        lose([cell(4, 4), cell(5, 5), cell(6, 6)], [4, 5, 6, 7, 8, 9]),
        "Hidden triple: in box 5 the digits 1, 2 and 3 fit only in row 4, column 4 and row 5, column 5 "
        "and row 6, column 6, so 4, 5, 6, 7, 8 and 9 are eliminated from row 4, column 4 and row 5, column 5 "
        "and row 6, column 6.",
    ),
    "naked_quad": (
        only({cell(9, 1): [1, 2], cell(9, 2): [2, 3], cell(9, 6): [3, 4], cell(9, 8): [1, 4]}),
        lose(at([9], [3, 4, 5, 7, 9]), [1, 2, 3, 4]),
        "Naked quad: in row 9 the cells in columns 1, 2, 6 and 8 have no candidates but 1, 2, 3 and 4, "
        "so 1, 2, 3 and 4 are eliminated from row 9, columns 3, 4, 5, 7 and 9.",
    ),
    "hidden_quad": (
        merged(
            confined(6, COLUMN[2], at([1, 2], [2])),
            confined(7, COLUMN[2], at([2, 3], [2])),
            confined(8, COLUMN[2], at([3, 9], [2])),
            confined(9, COLUMN[2], at([1, 9], [2])),
        ),
        lose(at([1, 2, 3, 9], [2]), [1, 2, 3, 4, 5]),
        "Hidden quad: in column 2 the digits 6, 7, 8 and 9 fit only in rows 1, 2, 3 and 9, "
        "so 1, 2, 3, 4 and 5 are eliminated from rows 1, 2, 3 and 9, column 2.",
    ),
    "x_wing": (
        merged(confined(1, ROW[2], at([2], [1, 8])), confined(1, ROW[6], at([6], [1, 8]))),
        lose(at([1, 3, 4, 5, 7, 8, 9], [1, 8]), [1]),
        "X-wing: in rows 2 and 6 the digit 1 fits only in columns 1 and 8, "
        "so 1 is eliminated from rows 1, 3, 4, 5, 7, 8 and 9, columns 1 and 8.",
    ),
    "swordfish": (
        merged(
            confined(2, ROW[1], at([1], [1, 4])),
            confined(2, ROW[4], at([4], [4, 9])),
            confined(2, ROW[7], at([7], [1, 9])),
            only({place: [1, 3, 4, 5, 6, 7, 8, 9] for place in at([2, 3, 5, 6, 8, 9], [1, 9])}),
        ),
        lose(at([2, 3, 5, 6, 8, 9], [4]), [2]),
        "Swordfish: in rows 1, 4 and 7 the digit 2 fits only in columns 1, 4 and 9, "
        "so 2 is eliminated from rows 2, 3, 5, 6, 8 and 9, column 4.",
    ),
    "jellyfish": (
        merged(
            confined(3, COLUMN[1], at([1, 2], [1])),
            confined(3, COLUMN[3], at([2, 3], [3])),
            confined(3, COLUMN[5], at([3, 9], [5])),
            confined(3, COLUMN[7], at([1, 9], [7])),
            only({place: [1, 2, 4, 5, 6, 7, 8, 9] for place in at([1, 2, 3], [2, 4, 6, 8, 9])}),
        ),
        lose(at([9], [2, 4, 6, 8, 9]), [3]),
        "Jellyfish: in columns 1, 3, 5 and 7 the digit 3 fits only in rows 1, 2, 3 and 9, "
        "so 3 is eliminated from row 9, columns 2, 4, 6, 8 and 9.",
    ),
    "xy_wing": (
        only({cell(1, 1): [1, 2], cell(1, 5): [1, 3], cell(5, 1): [2, 3]}),
        lose([cell(5, 5)], [3]),
        "XY-wing: row 1, column 1 is 1 or 2; if it is 1, then row 1, column 5 (1 or 3, also in row 1) is 3; "
        "if it is 2, then row 5, column 1 (2 or 3, also in column 1) is 3; hence one of the last two is 3, "
        "so 3 is eliminated from row 5, column 5, which shares a unit with both.",
    ),
    "xyz_wing": (
        only({cell(1, 1): [1, 2, 3], cell(1, 5): [1, 3], cell(3, 3): [2, 3]}),
        lose(at([1], [2, 3]), [3]),
        "XYZ-wing: row 1, column 1 is 1, 2 or 3; if it is 1, then row 1, column 5 (1 or 3, also in row 1) is 3; "
        "if it is 2, then row 3, column 3 (2 or 3, also in box 1) is 3; hence one of the three is 3, "
        "so 3 is eliminated from row 1, columns 2 and 3, which each share a unit with all three.",
    ),
    "w_wing": (
        merged(only({cell(1, 1): [1, 2], cell(9, 9): [1, 2]}), confined(1, COLUMN[5], at([1, 9], [5]))),
        lose([cell(1, 9), cell(9, 1)], [2]),
        "W-wing: row 1, column 1 and row 9, column 9 are both 1 or 2; "
        "in column 5 the digit 1 fits only in row 1, column 5, which shares row 1 with the first, "
        "and in row 9, column 5, which shares row 9 with the second; hence not both are 1 and one of them is 2, "
        "so 2 is eliminated from row 1, column 9 and row 9, column 1, which each share a unit with both.",
    ),
    "turbot_fish": (
        merged(confined(5, ROW[1], at([1], [2, 5])), confined(5, ROW[8], at([8], [2, 6]))),
        lose([*at([2, 3], [6]), *at([7, 9], [5])], [5]),
        "Turbot fish: in row 1 the digit 5 fits only in row 1, column 5 and row 1, column 2, "
        "in row 8 only in row 8, column 2 and row 8, column 6; "
        "row 1, column 2 and row 8, column 2 share column 2, so not both are 5; "
        "hence one of row 1, column 5 and row 8, column 6 is 5, "
        "so 5 is eliminated from rows 2 and 3, column 6 and rows 7 and 9, column 5, which each share a unit with both.",
    ),
}
