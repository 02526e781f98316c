"""Candidates and definite cells: what the digits on a board imply, by singles alone or by a ladder of rules.

A naked single is a blank cell with one candidate left; a hidden single is the one blank cell of a row, column or box
where a digit can still go. Both are read off the digits now on the board (docs/objective.md, the set S1).

`RULES` is the ladder, from easy to hard. Singles and "backbone" (the digit is the same in every solution; found by the
solver) place digits, the rules between eliminate candidates:

- "pointing" and "claiming": locked candidates, from a box to a line and from a line to a box;
- naked and hidden pairs, triples and quads, naked before hidden, small before large;
- "x_wing", "swordfish", "jellyfish": fish in 2, 3 and 4 lines;
- "xy_wing", "xyz_wing", "w_wing";
- "turbot_fish": skyscraper, two-string kite and their like.

None of them assumes that the solution is unique, so all hold in every solution of any board. A rule always brings
everything easier with it, and so does the name of a group (`RULE_GROUPS`), which stands for its hardest rule.
"""

import numpy as np
from numpy.typing import NDArray

from sudoku_env.board import Board, as_boards, geometry, size_of
from sudoku_env.errors import BoardError
from sudoku_env.kernels.general import candidates_batch, find_definite_batch
from sudoku_env.kernels.ladder import definite_batch
from sudoku_env.kernels.ladder_state import RULES, ladder_table, new_work
from sudoku_env.kernels.search_state import in_pieces, new_search
from sudoku_env.kernels.singles import definite9_batch

RULE_GROUPS: dict[str, str] = {
    "singles": "hidden_single",
    "locked": "claiming",
    "pairs": "hidden_pair",
    "triples": "hidden_triple",
    "quads": "hidden_quad",
    "fish": "jellyfish",
    "wings": "w_wing",
    "patterns": "turbot_fish",
}


def candidates(boards: NDArray[np.integer]) -> NDArray[np.bool_]:
    """The digits that stand in no peer of a blank cell.

    Args:
        boards: `(n²,)` or `(N, n²)` integers, 0 for a blank. Contradictory boards are fine.

    Returns:
        bool `(n², n)` or `(N, n², n)`: whether digit d+1 is possible in the cell; False throughout in filled cells.

    Raises:
        BoardError: Wrong shape or a value out of range.
    """
    flat = as_boards(boards)
    size = size_of(flat.shape[-1])
    batch = flat.reshape(-1, size * size)
    masks = np.zeros(batch.shape, dtype=np.int64)
    table = geometry(size)
    candidates_batch(batch, table.units, table.units_of, masks)
    return ((masks[:, :, None] >> np.arange(size)) & 1).astype(np.bool_).reshape(*flat.shape, size)


def definite_digits(boards: NDArray[np.integer]) -> Board:
    """The digit of each definite cell: a blank cell with a naked or hidden single.

    A board may be contradictory. A naked and a hidden single of one cell never disagree, as both are its candidates;
    two hidden ones may, and then the row's comes before the column's before the box's, and the lower digit first.

    Args:
        boards: `(n²,)` or `(N, n²)` integers, 0 for a blank.

    Returns:
        uint8 of the same shape: the digit, 0 in cells that are not definite and in filled cells.

    Raises:
        BoardError: Wrong shape or a value out of range.
    """
    flat = as_boards(boards)
    size = size_of(flat.shape[-1])
    batch = flat.reshape(-1, size * size)
    definite = np.zeros_like(batch)
    table = geometry(size)
    find = definite9_batch if size == 9 else find_definite_batch
    find(batch, table.units, table.units_of, definite)
    return definite.reshape(flat.shape)


def rule_index(rule: str) -> int:
    """Index in `RULES` of a rule, or of the hardest rule of a group.

    Raises:
        BoardError: There is no such rule or group.
    """
    name = RULE_GROUPS.get(rule, rule)
    if name not in RULES:
        raise BoardError(f"rule {rule!r} is unknown; choose one of {RULES} or of the groups {tuple(RULE_GROUPS)}")
    return RULES.index(name)


def definite_cells(boards: NDArray[np.integer], rule: str = "singles") -> Board:
    """The cells whose digit follows now, without another digit being written first, by the rules up to `rule`.

    From the candidates of the digits on the board, the easiest rule that eliminates anything does so everywhere at
    once, again and again until no rule up to `rule` does; then a cell is definite if it is a naked or hidden single of
    the candidates left. "naked_single" counts naked ones alone; "singles" is `definite_digits`; under "backbone" a cell
    is definite if its digit is the same in every solution, so none is on a board without a solution.

    On a board with a solution, a cell that is definite under a rule is so with the same digit under any harder one.
    Beyond singles, filling a definite cell can break up the pattern that made another one definite, so that this one
    no longer is until the singles that result are filled too.

    Args:
        boards: `(n²,)` or `(N, n²)` integers, 0 for a blank. Contradictory boards are fine: up to the last rule but
            "backbone" they are treated like others, and their digits mean nothing.
        rule: One of `RULES` or of `RULE_GROUPS`.

    Returns:
        uint8 of the same shape: the definite digit, 0 where there is none and in filled cells.

    Raises:
        BoardError: Wrong shape, a value out of range, or an unknown rule.
    """
    flat = as_boards(boards)
    size = size_of(flat.shape[-1])
    batch = flat.reshape(-1, size * size)
    definite = np.zeros_like(batch)
    search = new_search(size)
    rest = (batch, ladder_table(size), rule_index(rule), definite, new_work(size), search)
    in_pieces(definite_batch, search.state, len(batch), *rest)
    return definite.reshape(flat.shape)
